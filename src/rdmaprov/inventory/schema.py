"""Every public variable of a site, from the roles' argument specs and that of the controller."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from ansible._internal._datatag._tags import Origin, TrustedAsTemplate
from ansible.parsing.utils.yaml import from_yaml

from rdmaprov.resources import data_dir

_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Option:
    """A variable, or a key of one: its type, choices and meaning, as in an argument spec."""

    name: str
    type: str
    description: str
    role: str
    required: bool = False
    choices: tuple[Any, ...] = ()
    elements: str | None = None
    default: Any = None
    has_default: bool = False
    options: "Mapping[str, Option]" = field(default_factory=dict)

    @cached_property
    def element(self) -> "Option":
        """What each element of a list is."""
        return replace(self, type=self.elements or "raw", description="", elements=None)


@dataclass(frozen=True)
class Role:
    """A role: what it owns, its variables, and their defaults as Ansible reads them."""

    name: str
    title: str
    text: str
    variables: Mapping[str, Option]
    defaults: Mapping[str, Any]


@dataclass(frozen=True)
class Schema:
    """All variables."""

    roles: Mapping[str, Role]
    variables: Mapping[str, Option]
    defaults: Mapping[str, Any]
    # by the beginning of their names, variables that no role has: what the controller needs of a
    # site, in the same form
    controller: Mapping[str, Role] = field(default_factory=dict)

    @property
    def parts(self) -> Mapping[str, Role]:
        """Return all that own variables, by what their names begin with."""
        return {**self.roles, **self.controller}


def load(roles: Path, controller: Mapping[str, Path] | None = None) -> Schema:
    """Return the schema of the roles in a directory, and of the controller's specs."""
    found = {path.name: _role(path) for path in sorted(roles.iterdir()) if path.is_dir()}
    own = {name: _controller(name, path) for name, path in (controller or {}).items()}
    variables: dict[str, Option] = {}
    defaults: dict[str, Any] = {}
    for part in (*found.values(), *own.values()):
        variables |= part.variables
        defaults |= part.defaults
    return Schema(found, variables, defaults, own)


@cache
def load_shipped() -> Schema:
    """Return the schema of rdmaprov's own roles."""
    own = {each: _HERE / f"{each}_variables.yml" for each in ("scheduler", "gpu")}
    return load(data_dir("roles"), own)


def _controller(name: str, path: Path) -> Role:
    spec = read_own(path)["argument_specs"]["main"]
    options = {str(key): _option(name, key, text) for key, text in spec["options"].items()}
    defaults = {key: option.default for key, option in options.items() if option.has_default}
    return Role(name, str(spec["short_description"]), str(spec["description"]), options, defaults)


def _role(path: Path) -> Role:
    spec = read_own(path / "meta" / "argument_specs.yml")["argument_specs"]["main"]
    defaults = read_own(path / "defaults" / "main.yml")
    # A default that is made from other variables is in the role's defaults alone: as a template it
    # is of no type that an argument spec knows.
    options = {
        str(name): _option(
            path.name, name, {**text, "default": defaults[name]} if name in defaults else text
        )
        for name, text in spec["options"].items()
    }
    return Role(
        path.name, str(spec["short_description"]), str(spec["description"]), options, defaults
    )


def read_own(path: Path) -> Any:
    """Return one of rdmaprov's own YAML files: each value has its place, and may be a template."""
    text = Origin(path=str(path.resolve())).tag(path.read_text())
    return from_yaml(TrustedAsTemplate().tag(text))


def _option(role: str, name: str, spec: Mapping[str, Any]) -> Option:
    inner = spec.get("options") or {}
    return Option(
        name=str(name),
        type=str(spec.get("type", "str")),
        description=str(spec["description"]),
        role=role,
        required=bool(spec.get("required", False)),
        choices=tuple(spec.get("choices") or ()),
        elements=spec.get("elements"),
        default=spec.get("default"),
        has_default="default" in spec,
        options={str(key): _option(role, key, text) for key, text in inner.items()},
    )
