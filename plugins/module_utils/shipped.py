"""Code of ours on a node, for units that do at boot what a role does now. Runs on the node.

A second implementation, in shell, would drift from the role's. So the role's own source is written
to the node, from wherever Python loaded it: a checkout, or the archive of an Ansible module.
"""

from __future__ import annotations

import shutil
from types import ModuleType
from typing import Any

from .machine import Machine, NodeError
from .plan import CONFIGURED, Change, Plan

PACKAGES = "/usr/local/lib/rdmaprov"
_INIT = '"""Written by rdmaprov ({}); changes here are lost."""\n'


def directory_of(owner: str) -> str:
    """Return where a role's package is; its parent is to be on Python's path."""
    return f"{PACKAGES}/{owner}/rdmaprov_{owner}"


def ship(plan: Plan, owner: str, modules: tuple[ModuleType, ...]) -> None:
    """Have a package on the node with these modules of ours, which import nothing else of ours.

    Args:
        owner: the role.
        modules: imported ones, for Ansible to put them into the role's module.

    """
    directory = directory_of(owner)
    files = {f"{directory}/{_name(each)}.py": _source(each) for each in modules}
    files[f"{directory}/__init__.py"] = _INIT.format(owner)
    wrong = [path for path, text in files.items() if plan.machine.read(path) != text]
    if not wrong:
        return
    seen = "different" if plan.machine.names(directory) else "absent"
    change = Change(CONFIGURED, directory, "program", seen, "as the role is")

    def write() -> None:
        for path in wrong:
            plan.machine.write(path, files[path])

    plan.add(change, write)


def unship(plan: Plan, owner: str) -> None:
    """Have no such package on the node."""
    directory = directory_of(owner)
    if not plan.machine.names(directory):
        return
    change = Change(CONFIGURED, directory, "program", "present", "absent")
    plan.add(change, lambda: shutil.rmtree(plan.machine.path(f"{PACKAGES}/{owner}")))


def interpreter(machine: Machine) -> str:
    """Return a Python that is there at boot."""
    for path in ("/usr/bin/python3", "/usr/libexec/platform-python"):
        if machine.exists(path):
            return path
    raise NodeError("there is no /usr/bin/python3, which a unit starts at boot: install it")


def _name(module: ModuleType) -> str:
    return module.__name__.rpartition(".")[2]


def _source(module: ModuleType) -> str:
    loader: Any = module.__spec__ and module.__spec__.loader
    text: str | None = loader.get_source(module.__name__) if loader else None
    if text is None:
        raise NodeError(f"the source of {module.__name__} cannot be found")
    return text
