"""The programs of the host that the lab uses, and the Debian packages that bring them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable

from rdmaprov.errors import UsageError

RUN_TOOLS = {
    "qemu-system-x86_64": "qemu-system-x86",
    "qemu-img": "qemu-utils",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
}
BUILD_TOOLS = {
    "mmdebstrap": "mmdebstrap",
    "mke2fs": "e2fsprogs",
    "tar": "tar",
    "setpriv": "util-linux",
    "unshare": "util-linux",
    # Without root: file owners inside the image, and the user namespace it is made in.
    **({} if os.geteuid() == 0 else {"fakeroot": "fakeroot", "newuidmap": "uidmap"}),
}


def find(program: str) -> str | None:
    """Return where a program is; system directories count even when PATH leaves them out."""
    return shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def require(tools: dict[str, str]) -> None:
    """Refuse to go on while a program is missing, naming every package at once.

    Raises:
        UsageError: with the line that installs them.

    """
    missing = [program for program in tools if find(program) is None]
    if missing:
        packages = _unique(tools[program] for program in missing)
        raise UsageError(
            f"the lab needs {', '.join(missing)}, not installed here",
            f"As root, run: apt-get install {' '.join(packages)} (in a checkout: make lab-tools)",
        )


def _unique(words: Iterable[str]) -> list[str]:
    return sorted(set(words))
