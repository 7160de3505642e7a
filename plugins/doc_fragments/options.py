"""Options of the modules: what the roles' tasks give them, as the roles' specs describe it."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import yaml

_ROLES = Path(__file__).parents[2] / "roles"
_VARIABLE = re.compile(r"{{ (\w+)( }}$)?")
# Options that several modules have alike, by the name of the fragment that has them once.
_SHARED = {
    "rails": ("rails",),
    "guard": ("guard_allowed_netdevs", "guard_revert_s"),
    "links": ("link_manager",),
}


class ModuleDocFragment:
    """The options, by module, and those that several modules have."""

    def __getattr__(self, name: str) -> str:
        """Return a fragment: RAILS, GUARD, LINKS, or the options that only this module has."""
        role = name.lower()
        if not name.isupper() or not (role in _SHARED or (_ROLES / role).is_dir()):
            raise AttributeError(name)
        shared = {option for options in _SHARED.values() for option in options}
        if role in _SHARED:
            given, own = _all_given(), {}
            wanted = {option: given[option] for option in _SHARED[role]}
        else:
            wanted = given_to(role)
            own = {variable: f"O({option})" for option, (variable, _) in wanted.items()}
            wanted = {option: each for option, each in wanted.items() if option not in shared}
        options = {option: _entry(spec, own) for option, (_, spec) in wanted.items()}
        return str(yaml.safe_dump({"options": options}, sort_keys=False))


@cache
def given_to(role: str) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return by option of a role's module the variable that it is given, and its spec.

    An option is as its variable is, with two exceptions. Without a site to derive a default from, a
    module must be given it. And what a filter makes of a variable need not be one of its choices.

    Raises:
        ValueError: what the role's task gives does not begin with a variable.
    """
    specs, derived = _variables()
    found = {}
    for task in _read(_ROLES / role / "tasks" / "main.yml"):
        for option, template in task.get(f"rdmaprov.node.{role}", {}).items():
            match = _VARIABLE.match(template)
            if not match or match[1] not in specs:
                raise ValueError(f"{role}: {option}: {template} does not begin with a variable")
            spec = dict(specs[match[1]], **({"required": True} if match[1] in derived else {}))
            if not match[2]:
                spec.pop("choices", None)
            found[option] = match[1], spec
    return found


@cache
def _variables() -> tuple[dict[str, dict[str, Any]], set[str]]:
    """Return the specs of all roles' variables, and those with a derived default."""
    specs: dict[str, dict[str, Any]] = {}
    for path in _ROLES.glob("*/meta/argument_specs.yml"):
        specs.update(_read(path)["argument_specs"]["main"]["options"])
    return specs, {name for path in _ROLES.glob("*/meta/derived.yml") for name in _read(path)}


def _all_given() -> dict[str, tuple[str, dict[str, Any]]]:
    """Return the options of all modules; those of one name are alike where they are shared."""
    return {k: v for path in _ROLES.iterdir() for k, v in given_to(path.name).items()}


def _read(path: Path) -> Any:
    return yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)


def _entry(spec: dict[str, Any], own: dict[str, str]) -> dict[str, Any]:
    entry = {key: value for key, value in spec.items() if key not in ("no_log", "options")}
    # A derived default is the role's, and a variable that the module is given is its option.
    without = re.sub(r" Default: .*?\.(?= |$)", "", str(spec["description"]).strip())
    entry["description"] = re.sub(r"\w+", lambda word: own.get(word[0], word[0]), without)
    if "options" in spec:
        inner = spec["options"].items()
        entry["suboptions"] = {name: _entry(each, own) for name, each in inner}
    return entry
