"""What the program needs of where it runs: UTF-8, a home, a directory for Ansible's files."""

import locale
import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rdmaprov.errors import UsageError


def require_utf8() -> None:
    """Raise a UsageError for a locale of another encoding, with which Ansible does not work."""
    if (found := sys.getfilesystemencoding().lower()) != "utf-8":
        hint = "Set another locale, such as: LC_ALL=C.UTF-8 rdmaprov ..."
        raise UsageError(f"the locale's encoding is {found}, and rdmaprov needs UTF-8", hint)


def utf8_locale() -> dict[str, str]:
    """Return the environment of a locale that Ansible accepts; empty if this one is such.

    It refuses C, which Python itself reads as UTF-8, and a locale that is not installed.
    """
    before = locale.setlocale(locale.LC_ALL)
    try:
        locale.setlocale(locale.LC_ALL, "")
        return {} if locale.getlocale()[1] == "UTF-8" else {"LC_ALL": "C.UTF-8"}
    except (locale.Error, ValueError):
        return {"LC_ALL": "C.UTF-8"}
    finally:
        locale.setlocale(locale.LC_ALL, before)


def ansible_command(program: str, *words: object) -> str:
    """Return a command of Ansible's that a user can paste: pipx and uv leave it out of PATH."""
    own = Path(sys.executable).with_name(program)
    is_there = not own.exists() or shutil.which(program) == str(own)
    return shlex.join([program if is_there else str(own), *map(str, words)])


@contextmanager
def home_for_ansible() -> Iterator[None]:
    """Give Ansible a directory for its files if it cannot write ~/.ansible, as in a container.

    It must be done before Ansible is imported, which makes that directory.
    """
    if os.path.expanduser("~") == "~":  # noqa: PTH111 - pathlib raises an error here
        os.environ["HOME"] = "/"  # as container engines do for a user without a name
    named = "ANSIBLE_LOCAL_TEMP" in os.environ or "ANSIBLE_HOME" in os.environ
    if named or is_writable(Path("~/.ansible/tmp").expanduser()):
        yield
        return
    from tempfile import TemporaryDirectory  # help does without

    with TemporaryDirectory(prefix="rdmaprov-", ignore_cleanup_errors=True) as directory:
        os.environ["ANSIBLE_LOCAL_TEMP"] = directory
        yield
        del os.environ["ANSIBLE_LOCAL_TEMP"]


def is_writable(directory: Path) -> bool:
    """Return whether a directory can be written; of one that is missing, whether it can be made."""
    there = next(path for path in (directory, *directory.parents) if path.exists())
    return there.is_dir() and os.access(there, os.W_OK | os.X_OK)


def is_of_settings(error: BaseException | None) -> bool:
    """Return whether Ansible refuses its configuration, most of which its import reads."""
    early = "ansible.constants" not in sys.modules or type(error).__name__ == "AnsibleOptionsError"
    return type(error).__module__ == "ansible.errors" and early
