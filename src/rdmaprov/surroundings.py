"""What the program needs of where it runs: UTF-8, a home, a directory for Ansible's files."""

from __future__ import annotations

import locale
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rdmaprov.errors import UsageError
from rdmaprov.problem import printable

# What to do about a setting that Ansible refuses.
ANSIBLE_HINT = (
    "Correct it in ansible.cfg or the environment. ANSIBLE_CONFIG=FILE names another ansible.cfg."
)
_UTF8 = ("utf-8", "utf8")
_MOST = 300  # characters of an error: a file without lines is quoted whole


def require_utf8() -> None:
    """Raise if the locale has another encoding, with which neither Ansible nor this program works.

    Raises:
        UsageError: another encoding than UTF-8.
    """
    found = sys.getfilesystemencoding()
    if found.lower() not in _UTF8:
        raise UsageError(
            f"the locale's encoding is {found}, and rdmaprov needs UTF-8",
            "Set another locale, such as: LC_ALL=C.UTF-8 rdmaprov ...",
        )


def utf8_locale() -> dict[str, str]:
    """Return the environment of a locale that Ansible accepts; empty if this one is such.

    It refuses C, which Python itself reads as UTF-8, and a locale that is not installed.
    """
    before = locale.setlocale(locale.LC_ALL)
    try:
        locale.setlocale(locale.LC_ALL, "")
        fits = (locale.getlocale()[1] or "").lower() in _UTF8
    except (locale.Error, ValueError):
        fits = False
    finally:
        locale.setlocale(locale.LC_ALL, before)
    return {} if fits else {"LC_ALL": "C.UTF-8"}


@contextmanager
def home_for_ansible() -> Iterator[None]:
    """Give Ansible a directory for its files if it cannot write ~/.ansible, as in a container.

    It must be done before Ansible is imported, which makes that directory.
    """
    if os.path.expanduser("~") == "~":  # noqa: PTH111 - pathlib raises an error here
        os.environ["HOME"] = "/"  # as container engines do for a user without a name
    usual = Path("~/.ansible/tmp").expanduser()
    if "ANSIBLE_LOCAL_TEMP" in os.environ or "ANSIBLE_HOME" in os.environ or is_writable(usual):
        yield
        return
    from tempfile import TemporaryDirectory  # help does without

    with TemporaryDirectory(prefix="rdmaprov-", ignore_cleanup_errors=True) as directory:
        os.environ["ANSIBLE_LOCAL_TEMP"] = directory
        try:
            yield
        finally:
            del os.environ["ANSIBLE_LOCAL_TEMP"]


def one_line(text: str) -> str:
    """Return a text of Ansible's on one line."""
    return printable(" ".join(text.split())[:_MOST])


def is_writable(directory: Path) -> bool:
    """Return whether a directory can be written; of one that is missing, whether it can be made."""
    there = next(path for path in (directory, *directory.parents) if path.exists())
    return there.is_dir() and os.access(there, os.W_OK | os.X_OK)
