"""Kernel settings by sysctl's name: where they are, and what a boot sets. Runs on the node."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .machine import Machine
from .plan import Refused

# By precedence: a file hides those of its name in later directories (man sysctl.d.5).
DIRECTORIES = (
    "/etc/sysctl.d",
    "/run/sysctl.d",
    "/usr/local/lib/sysctl.d",
    "/usr/lib/sysctl.d",
    "/lib/sysctl.d",
)
_NAME = re.compile(r"[A-Za-z0-9_]+([./][A-Za-z0-9_:-]+)+")


@dataclass(frozen=True)
class Assignment:
    """One line that sets something at boot."""

    file: str
    line: int
    value: str


def path_of(name: str) -> str:
    """Return the kernel's file of a setting.

    The first of "." and "/" is what separates the parts; the other one is then a dot within a
    part, as in net.ipv4.conf.eth0/100.forwarding.

    Raises:
        Refused: that is not the name of one setting.
    """
    if not _NAME.fullmatch(name):
        raise Refused(f"{name!r} is not the name of a kernel setting, such as vm.swappiness")
    separator = re.search("[./]", name)
    if separator is not None and separator.group() == ".":
        name = name.translate(str.maketrans("./", "/."))
    parts = name.split("/")
    if any(not part.strip(".") for part in parts):
        raise Refused(f"{name!r} is not the name of a kernel setting, such as vm.swappiness")
    return "/proc/sys/" + name


def at_boot(machine: Machine, written: dict[str, str] | None = None) -> dict[str, Assignment]:
    """Return what systemd-sysctl sets at boot, by the kernel's file.

    Files are taken in the order of their names, wherever they are; the last line counts, and
    patterns never win over a setting that is named in full (systemd: src/sysctl/sysctl.c).

    Args:
        written: files' texts as they will be, in place of what is there.
    """
    written = written or {}
    files: dict[str, str] = {}
    for directory in DIRECTORIES:
        own = [path.rpartition("/")[2] for path in written if path.startswith(directory + "/")]
        for name in [*machine.names(directory), *own]:
            if name.endswith(".conf"):
                files.setdefault(name, f"{directory}/{name}")
    found: dict[str, Assignment] = {}
    for _, path in sorted(files.items()):
        text = written[path] if path in written else machine.read(path) or ""
        for number, line in enumerate(text.splitlines(), 1):
            key, equals, value = line.strip().partition("=")
            key = key.strip().lstrip("-")
            if equals and _NAME.fullmatch(key):
                found[path_of(key)] = Assignment(path, number, value.strip())
    return found
