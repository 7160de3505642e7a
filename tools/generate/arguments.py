"""The arguments of the roles' modules, from the variables that the roles' tasks give them."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from tools.generate.role import Option, Role

_VARIABLE = re.compile(r"{{ (\w+)( }}$)?")
_KEYS = ("type", "elements", "required", "choices", "default", "no_log")
_HEADER = '''"""The modules' argument specs. Written by `make generate`; changes here are lost."""

from __future__ import annotations

from typing import Any

'''


# Arguments that several modules have alike, by the name of the fragment that has them once.
SHARED = {
    "rails": ("rails",),
    "guard": ("guard_allowed_netdevs", "guard_revert_s"),
    "links": ("link_manager",),
}
_RAILS = "rails"  # the only one of many lines, so that the Python file names it, too


@dataclass(frozen=True)
class Argument:
    """An argument of a role's module.

    Args:
        variable: the variable that the role's task gives it.
        spec: its entry in the module's documentation.

    """

    variable: str
    spec: dict[str, Any]


def of_module(
    role: Role, options: Mapping[str, Option], derived: Collection[str]
) -> dict[str, Argument]:
    """Return the arguments of a role's module by name.

    An argument is as its variable is, with two exceptions. Without a site to derive a default
    from, a module must be given it. And what a filter makes of a variable need not be one of the
    variable's choices.
    """
    found = {}
    for name, template in role.task.items():
        match = _VARIABLE.match(template)
        if not match or match[1] not in options:
            raise ValueError(f"{role.path}: {name}: {template} does not begin with a variable")
        variable, plain = match[1], bool(match[2])
        found[name] = Argument(variable, _spec(options[variable], plain, variable in derived))
    return found


def _spec(option: Option, plain: bool, derived: bool) -> dict[str, Any]:
    spec = dict(option)
    if derived:
        spec["required"] = True
    if not plain:
        spec.pop("choices", None)
    return spec


def text(modules: Mapping[str, Mapping[str, Argument]]) -> str:
    """Return the Python file that the modules read."""
    table = {
        role: {
            name: _Name() if name == _RAILS else _code(argument.spec)
            for name, argument in module.items()
        }
        for role, module in modules.items()
    }
    shared = _code(shared_argument(_RAILS, modules).spec)
    code = f"{_Name()}: dict[str, Any] = {shared!r}\n\n"
    code += f"ARGUMENTS: dict[str, dict[str, Any]] = {table!r}\n"
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "format", "--stdin-filename", "plugins/x.py", "-"],
        input=_HEADER + code,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def shared_argument(name: str, modules: Mapping[str, Mapping[str, Argument]]) -> Argument:
    """Return an argument that several modules have alike.

    Raises:
        ValueError: they differ.

    """
    first, *others = [module[name] for module in modules.values() if name in module]
    if any(other != first for other in others):
        raise ValueError(f"the modules' arguments {name} differ")
    return first


class _Name:
    """The name of the rails' spec in the file."""

    def __repr__(self) -> str:
        return _RAILS.upper()


def _code(spec: Mapping[str, Any]) -> dict[str, Any]:
    found = {key: spec[key] for key in _KEYS if key in spec}
    if "options" in spec:
        found["options"] = {name: _code(inner) for name, inner in spec["options"].items()}
    return found
