"""What a survey asks of a node, from the roles' own files: each is written once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROLES = Path(__file__).resolve().parents[2] / "roles"
COLLECTION = "rdmaprov.node"


@dataclass(frozen=True)
class Asked:
    """What a survey is to look at, not templated yet."""

    # by role, those of its module, as its task has them; roles without a module of their own are
    # left out
    arguments: dict[str, dict[str, Any]]
    # the roles' variables that a site may leave out, and those of the role fabric, which the others
    # depend on
    defaults: dict[str, Any]


def read_roles(named: Iterable[str], load: Callable[[str], Any]) -> Asked:
    """Return what a survey of these roles asks; of all roles if none is named.

    Args:
        load: reads a YAML file whose strings are trusted to be templates.

    Raises:
        LookupError: there is no such role.
    """
    names = list(named) or sorted(
        path.parent.parent.name for path in ROLES.glob("*/tasks/main.yml")
    )
    arguments: dict[str, dict[str, Any]] = {}
    defaults: dict[str, Any] = {}
    for name in ["fabric", *names]:
        if not (ROLES / name).is_dir():
            raise LookupError(f"there is no role {name} in {COLLECTION}")
        path = ROLES / name / "defaults" / "main.yml"
        defaults.update((load(str(path)) or {}) if path.is_file() else {})
    for name in names:
        found = _of_module(name, load(str(ROLES / name / "tasks" / "main.yml")))
        if found is not None:
            arguments[name] = found
    return Asked(arguments, defaults)


def _of_module(role: str, tasks: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the arguments of the role's module as its task has them; None if it has none."""
    for task in tasks:
        arguments = task.get(f"{COLLECTION}.{role}")
        if isinstance(arguments, dict):
            return arguments
    return None
