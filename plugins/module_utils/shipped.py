"""Code of ours on a node, for units that do at boot what a role does now. Runs on the node.

A second implementation, in shell, would drift from the role's. So the role's own source is written
to the node, from wherever Python loaded it: a checkout, or the archive of an Ansible module.
"""

from __future__ import annotations

import importlib
import os
import stat
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from .machine import Machine, NodeError
from .plan import CONFIGURED, Change, Plan, Refused

PROGRAMS = "/usr/local/lib/rdmaprov"
PYTHON = "/usr/bin/python3"
_PACKAGE = __package__ or ""
_HEADER = "# Written by rdmaprov ({}); changes here are lost.\n"
_MAIN = """import runpy

runpy.run_module("node.{}", run_name="__main__", alter_sys=True)
"""


def directory_of(owner: str) -> str:
    """Return where a role's program is, which Python runs by this name."""
    return f"{PROGRAMS}/{owner}"


def command(machine: Machine, owner: str) -> str:
    """Return how a unit starts a role's program, as root, with a Python of the node's.

    That is the one that runs now if it is not the system's: on some systems that one is too old.
    A Python that users other than root can change would make them root at the next boot.

    Raises:
        Refused: others can change the one that runs now, and the system's does not suffice.
    """
    python = machine.ask("Python of units", lambda: _python(machine))
    return f"{python} -I -B {directory_of(owner)}"


def _python(machine: Machine) -> str:
    mine = sys.executable
    if os.path.realpath(PYTHON) == os.path.realpath(mine) and not weak_spot(PYTHON):
        return PYTHON
    weak = weak_spot(mine) or weak_spot(os.__file__)
    if not weak:
        return mine
    if not weak_spot(PYTHON) and _suffices(machine):
        return PYTHON
    raise Refused(
        f"ansible_python_interpreter: users other than root can change {weak}, so no unit that "
        f"runs as root may start {mine}, and {PYTHON} is absent or too old; install the system's "
        "Python and write its path"
    )


def weak_spot(path: str) -> str:
    """Return what users other than root can change of what a path leads to; empty if nothing."""
    try:
        for each in _steps(path):
            found = os.lstat(each)
            is_link = stat.S_ISLNK(found.st_mode)
            shared = 0 if is_link else stat.S_IWOTH | (stat.S_IWGRP if found.st_gid else 0)
            if found.st_uid or found.st_mode & shared:
                return each
    except OSError:
        return path  # absent, or a circle of links
    return ""


def _steps(path: str) -> Iterator[str]:
    """Yield each directory, link and file on the way to a file."""
    done, rest = "/", path.split("/")
    yield done
    while rest:
        name = rest.pop(0)
        if name in ("", "."):
            continue
        done = os.path.dirname(done) if name == ".." else os.path.join(done, name)
        yield done
        if os.path.islink(done):
            os.stat(done)  # raises for a circle
            target = os.readlink(done)
            done = "/" if target.startswith("/") else os.path.dirname(done)
            rest = target.split("/") + rest


def _suffices(machine: Machine) -> bool:
    """Return whether the system's Python is new enough for a role's program."""
    test = "import sys; sys.exit(sys.version_info < (3, 8))"
    try:
        machine.run([PYTHON, "-I", "-c", test])
    except NodeError:
        return False
    return True


def sources(owner: str, modules: tuple[ModuleType, ...]) -> dict[str, str]:
    """Return the files of a program by their names below its directory.

    Args:
        modules: imported ones of ours, which import nothing else of ours; the program is the last.
    """
    header = _HEADER.format(owner)
    files = {"__main__.py": header + _MAIN.format(_name(modules[-1])), "node/__init__.py": header}
    for module in modules:
        name = _name(module)
        path = name.replace(".", "/")
        files[f"node/{path}.py"] = header + _source(module)
        if "/" in path:
            package = name.rpartition(".")[0]
            text = _source(importlib.import_module(f"{_PACKAGE}.{package}"))
            files[f"node/{os.path.dirname(path)}/__init__.py"] = header + text
    return files


def ship(plan: Plan, owner: str, modules: tuple[ModuleType, ...]) -> bool:
    """Have a role's program on the node, and nothing beside it; return whether that is a change."""
    machine, directory = plan.machine, directory_of(owner)
    wanted = sources(owner, modules)
    present = set(_installed(machine, directory))
    wrong = [name for name in wanted if not machine.stands(f"{directory}/{name}", wanted[name])]
    stale = sorted(present - set(wanted))
    if not (wrong or stale):
        return False

    def write() -> None:
        for name in stale:
            machine.remove(f"{directory}/{name}")
        for name in wrong:
            machine.write(f"{directory}/{name}", wanted[name])

    seen = "different" if present else "absent"
    plan.add(Change(CONFIGURED, directory, "program", seen, "as the role is"), write)
    return True


def _installed(machine: Machine, directory: str, below: str = "") -> list[str]:
    found = []
    for name in machine.names(f"{directory}/{below}"):
        if name.endswith(".py"):
            found.append(below + name)
        elif name != "__pycache__":
            found += _installed(machine, directory, f"{below}{name}/")
    return found


def _name(module: ModuleType) -> str:
    return module.__name__[len(_PACKAGE) + 1 :]


def _source(module: ModuleType) -> str:
    loader: Any = module.__spec__ and module.__spec__.loader
    text: str | None = loader.get_source(module.__name__) if loader else None
    if text is None:
        raise NodeError(f"the source of {module.__name__} cannot be found")
    return text
