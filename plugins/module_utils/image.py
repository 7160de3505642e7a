"""An image that is built in a chroot: what a boot reads is set, the rest is left to the boot.

Runs from a bundle, without Ansible. The kernel and the hardware that are seen here are those of the
machine that builds, so nothing of them is read, and nothing of that machine is changed.
"""

from __future__ import annotations

import importlib
import os.path
import re
from types import ModuleType
from typing import Any

from .lock import NodeLock
from .long_step import BOOTED
from .machine import Machine, NodeError
from .plan import NotYet, changes_text, make
from .pull import holder_of
from .roles import ORDER

_RELEASE, _COMMAND_LINE = "/proc/sys/kernel/osrelease", "/proc/cmdline"
# Programs that only read and write files, for a kernel that is named; others ask what runs.
_OF_FILES = (
    *("apt-cache", "apt-get", "apt-mark", "dpkg-query", "dpkg-deb", "dnf", "rpm", "rpm2archive"),
    *("dracut", "env", "lsinitrd", "modinfo", "sync", "tar", "unmkinitramfs", "update-initramfs"),
)
_OF_UNITS = ("disable", "enable", "is-enabled", "mask", "unmask")


class Image(Machine):
    """The files of an image.

    Reading of the machine that runs raises NotYet: that role is left to the boot.
    """

    is_image = True

    def path(self, name: str) -> str:
        """Return where a file of the image really is; what a boot makes anew is not there."""
        top = name.lstrip("/").partition("/")[0]
        if top in ("proc", "sys"):
            raise NotYet(f"{name} is known where the image runs")
        return os.devnull + name if top == "run" else super().path(name)

    def read(self, name: str) -> str | None:
        """Return a file's text; of the kernel, what the image's newest one would say."""
        if name == _COMMAND_LINE:
            return ""
        return self.kernel if name == _RELEASE else super().read(name)

    def run(self, argv: list[str], stdin: str = "", timeout_s: int = 600) -> str:
        """Return what a program of files printed."""
        program = os.path.basename(argv[0])
        if program == "modinfo" and "-k" not in argv:
            argv = [argv[0], "-k", self.kernel, *argv[1:]]
        is_of_units = program == "systemctl" and argv[1] in _OF_UNITS and "--now" not in argv
        if not (is_of_units or program in _OF_FILES or program.startswith("python")):
            raise NotYet(f"{program} asks the machine that runs")
        return super().run(argv, stdin, timeout_s)

    @property
    def kernel(self) -> str:
        """Return the newest kernel that is installed.

        Raises:
            NotYet: there is none.
        """
        found = [
            name
            for name in self.names("/lib/modules")
            if self.exists(f"/lib/modules/{name}/modules.dep")
        ]
        if not found:
            raise NotYet("the image has no kernel (/lib/modules)")
        return max(found, key=lambda name: [int(each) for each in re.findall(r"\d+", name)])


def configure(machine: Image, arguments: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Set what a boot reads; return a verdict, and in words what each role did.

    A role that needs to know the hardware or what runs changes nothing. One that fails is the last.

    Raises:
        NodeError: the image is a system that runs, and another run holds it.
    """
    runs = Machine(machine.root)
    given = {"holder": holder_of(runs, "image")} if runs.exists(BOOTED) else {}
    with NodeLock(runs, given):
        return _configure(machine, arguments)


def _configure(machine: Image, arguments: dict[str, dict[str, Any]]) -> dict[str, str]:
    said, left = [], []
    for role in [role for role in ORDER if role in arguments]:
        module = importlib.import_module(f".roles.{role}", __package__)
        try:
            said.append(f"{role} ({_set(module, machine, arguments[role])} set)")
        except NotYet as error:
            left.append(f"{role} ({error})")
        except NodeError as error:
            return {"verdict": "failed", "why": f"{role}: {error}"}
    said += [f"left to the boot: {', '.join(left)}"] if left else []
    return {"verdict": "configured", "why": ", ".join(said)}


def _set(module: ModuleType, machine: Image, arguments: dict[str, Any]) -> int:
    """Make a role's changes; return how many there were.

    Raises:
        NotYet: they are known where the image runs; nothing was changed.
    """
    plan = module.plan(machine, arguments)
    try:
        for step in plan.steps:
            make(machine, step)
        rest = module.plan(machine, arguments).changes()
    except NotYet as error:
        raise NodeError(str(error)) from error
    if rest:
        raise NodeError(f"set, but not in effect: {changes_text(rest)}")
    return len(plan.changes())
