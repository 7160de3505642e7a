"""Code of ours on a node, for units that do at boot what a role does now. Runs on the node.

A second implementation, in shell, would drift from the role's. So the role's own source is written
to the node, from wherever Python loaded it: a checkout, or the archive of an Ansible module.
"""

from __future__ import annotations

import importlib
import os
import sys
from types import ModuleType
from typing import Any

from .machine import Machine, NodeError
from .plan import CONFIGURED, Change, Plan

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


def command(owner: str) -> str:
    """Return how a unit starts a role's program, with a Python of the node's.

    That is the one that runs now if it is not the system's: on some systems that one is too old.
    """
    mine = sys.executable
    same = os.path.realpath(PYTHON) == os.path.realpath(mine)
    return f"{PYTHON if same else mine} -B {directory_of(owner)}"


def sources(owner: str, modules: tuple[ModuleType, ...]) -> dict[str, str]:
    """Return the files of a program by their names below its directory.

    Args:
        owner: the role.
        modules: imported ones of ours, which import nothing else of ours; the program is the last.

    """
    header = _HEADER.format(owner)
    files = {
        "__main__.py": header + _MAIN.format(_name(modules[-1])),
        "node/__init__.py": header,
    }
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
