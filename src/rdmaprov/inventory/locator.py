"""The position of a node's variable, or of a part of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from rdmaprov.inventory.tags import position_of
from rdmaprov.problem import Position


class HostPlaces(Protocol):
    """The positions of hosts."""

    def host(self, name: str) -> Position:
        """Return where a host is named."""


@dataclass(frozen=True)
class Locator:
    """Finds positions in the layers of one host's variables.

    Args:
        host: its name; its position stands for variables that are written nowhere.
        layers: its variables, highest precedence first.
    """

    host: str
    layers: tuple[Mapping[str, Any], ...]
    positions: HostPlaces

    def __call__(self, name: str, *path: str | int) -> Position:
        """Return where the variable is written, as near to the part at `path` as is known.

        A variable that is a template, or that only has its role's default, has no parts; one
        that the site does not write at all is at its host.
        """
        for layer in self.layers:
            if name in layer:
                return self._inside(layer, name, path) or self.positions.host(self.host)
        return self.positions.host(self.host)

    def writes(self, name: str) -> bool:
        """Return whether the site itself sets the variable."""
        return name in self.written

    @cached_property
    def written(self) -> frozenset[str]:
        """Return the names of the variables that the site itself sets."""
        return frozenset(str(name) for layer in self.layers for name in layer)

    @staticmethod
    def _inside(layer: Mapping[str, Any], name: str, path: Sequence[str | int]) -> Position | None:
        best: Position | None = None
        current: Any = layer
        for step in (name, *path):
            if isinstance(current, Mapping) and step in current:
                key = next(key for key in current if key == step)
                best = position_of(current[step]) or position_of(key) or best
                current = current[step]
            elif isinstance(current, list) and isinstance(step, int) and step < len(current):
                current = current[step]
                best = position_of(current) or best
            else:
                break
        return best
