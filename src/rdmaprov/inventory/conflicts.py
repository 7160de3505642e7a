"""Groups of a host that set a variable to different values."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

Conflict = tuple[str, str, str]


class GroupLayers(Protocol):
    """The variables of groups."""

    def group_own_variables(self, group: Any) -> Mapping[str, Any]:
        """Return the variables of one group, not of those that it is in."""


def conflicts(
    layers: GroupLayers, groups: list[Any], known: Collection[str]
) -> tuple[Conflict, ...]:
    """Return (variable, group, other group) where only the alphabet decides which one wins.

    Groups of one depth and one priority override each other in the order of their names.
    """
    owners: dict[tuple[int, int, str], tuple[str, Any]] = {}
    found: list[Conflict] = []
    for group in groups:
        own = layers.group_own_variables(group)
        for name, value in own.items():
            if str(name) not in known:
                continue
            key = (group.depth, group.priority, str(name))
            other, previous = owners.setdefault(key, (str(group.name), value))
            if other != str(group.name) and previous != value:
                found.append((str(name), other, str(group.name)))
    return tuple(found)
