"""A role as it is declared: its spec, its derived defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

Option = Mapping[str, Any]


@dataclass(frozen=True)
class Role:
    """What is written by hand about a role's variables."""

    path: Path  # the role's directory
    text: str  # what the role owns
    options: Mapping[str, Option]  # by variable, its entry in the argument spec
    # by variable, the template of a default that is made from other variables
    derived: Mapping[str, str]

    @property
    def name(self) -> str:
        """Return the role's name."""
        return self.path.name


def read_role(path: Path) -> Role:
    """Return the role in a directory.

    Raises:
        ValueError: a derived default belongs to no variable, or to one that has a default, or
            its description does not say what the default is.
    """
    spec = _yaml(path / "meta" / "argument_specs.yml")["argument_specs"]["main"]
    place = path / "meta" / "derived.yml"
    derived = _yaml(place) if place.is_file() else {}
    for name in derived:
        option = spec["options"].get(name)
        if option is None or "default" in option or option.get("required"):
            raise ValueError(f"{place}: {name} is no variable without a default")
        if " Default: " not in option["description"]:
            raise ValueError(f"{place}: the description of {name} lacks 'Default: ...'")
    return Role(path, str(spec["description"]), spec["options"], derived)


def _yaml(path: Path) -> Any:  # noqa: ANN401 - a YAML file
    return yaml.load(path.read_text(), Loader=yaml.CSafeLoader)
