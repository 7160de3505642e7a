"""The inventory files of a stranger's site: groups with hosts, children and vars."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rdmaprov.inventory.names import is_safe
from rdmaprov.inventory.tags import position_of
from rdmaprov.inventory.untrusted import limits, ranges
from rdmaprov.inventory.untrusted.groups import PlainGroup, PlainLayers
from rdmaprov.inventory.untrusted.judge import SiteJudge
from rdmaprov.inventory.untrusted.variables import checked_variables
from rdmaprov.problem import Position

_SECTIONS = ("vars", "children", "hosts")
_REMEDY = "write groups with hosts, children and vars"


class InventoryFiles:
    """Reads the content of inventory files into groups and hosts.

    Args:
        layers: takes the groups and hosts.
        judge: is told what is wrong.

    """

    def __init__(self, layers: PlainLayers, judge: SiteJudge) -> None:
        self._layers = layers
        self._judge = judge
        self._memberships = 0

    def take(self, file: Position, content: object) -> None:
        """Add the groups of one file.

        Raises:
            TooMuch: there are too many hosts or groups.

        """
        if not isinstance(content, Mapping):
            self._judge.refuse(file, [], "the file has no groups", _REMEDY)
            return
        if "plugin" in content:
            at = _place(content, "plugin", file)
            message = "makes Ansible run an inventory plugin"
            self._judge.refuse(at, ["plugin"], message, "write the hosts themselves")
            return
        for name, body in content.items():
            self._group(name, body, _place(content, name, file))

    def _group(self, name: object, body: object, at: Position) -> PlainGroup | None:
        if not isinstance(name, str) or not is_safe(name):
            self._judge.refuse(
                at, [str(name)], "is no safe name of a group", "use letters, digits and underscores"
            )
            return None
        if len(self._layers.groups) >= limits.MOST_GROUPS and name not in self._layers.groups:
            message = f"the site has more than {limits.MOST_GROUPS:,} groups"
            self._judge.stop(at, name, message, "write fewer groups")
        if body is not None and not isinstance(body, Mapping):
            self._judge.refuse(at, [name], "is no group", _REMEDY)
            return None
        group = self._layers.group(name, at)
        body = body or {}
        for key in body:
            if key not in _SECTIONS:
                self._judge.refuse(
                    _place(body, key, at), [str(key)], f"is no part of the group {name}", _REMEDY
                )
        self._variables(group, self._section(body, "vars", at), at)
        children = self._section(body, "children", at)
        for child_name, child_body in children.items():
            child = self._group(child_name, child_body, _place(children, child_name, at))
            if child is not None:
                self._layers.add_child(group, child)
        hosts = self._section(body, "hosts", at)
        for pattern, own in hosts.items():
            self._hosts(group, pattern, own, _place(hosts, pattern, at))
        return group

    def _section(self, body: Mapping[Any, Any], key: str, at: Position) -> Mapping[Any, Any]:
        section = body.get(key)
        if isinstance(section, str):
            return {section: None}
        if section is None or isinstance(section, Mapping):
            return section or {}
        self._judge.refuse(_place(body, key, at), [key], "is not a dictionary", _REMEDY)
        return {}

    def _variables(self, group: PlainGroup, values: Mapping[Any, Any], at: Position) -> None:
        for name, value in checked_variables(values, at, self._judge):
            if name != "ansible_group_priority":
                group.vars[name] = value
            elif isinstance(value, int) and not isinstance(value, bool):
                group.priority = value
            else:
                place = _place(values, name, at)
                self._judge.refuse(place, [name], "is not a whole number", "write a number")

    def _hosts(self, group: PlainGroup, pattern: object, own: object, at: Position) -> None:
        if not isinstance(pattern, str):
            self._judge.refuse(at, [str(pattern)], "is not text", "write the host in quotes")
            return
        if own is not None and not isinstance(own, Mapping):
            self._judge.refuse(at, [pattern], "its variables are no dictionary", "write them so")
            return
        variables = dict(checked_variables(own or {}, at, self._judge))
        for name, port in self._names(pattern, at):
            is_new = name not in self._layers.hosts
            host = self._layers.add_host(group, name, at)
            if port is not None and is_new:
                host.vars["ansible_port"] = port
            host.vars |= variables

    def _names(self, pattern: str, at: Position) -> Iterator[tuple[str, int | None]]:
        try:
            parsed = ranges.parse(pattern)
        except ranges.WrongRange as error:
            self._judge.refuse(at, [pattern], str(error), "write a range such as gpu[01:16]")
            return
        self._memberships += parsed.count
        if parsed.count > limits.MOST_HOSTS or self._memberships > limits.MOST_MEMBERSHIPS:
            message = f"the site names more than {limits.MOST_HOSTS:,} hosts"
            if parsed.count <= limits.MOST_HOSTS:
                message = f"the groups name more than {limits.MOST_MEMBERSHIPS:,} hosts together"
            self._judge.stop(at, pattern, message, "write fewer")
        for name in parsed.names():
            if not is_safe(name):
                self._judge.refuse(
                    at, [name], "is no safe name of a host", "use letters, digits, dots and hyphens"
                )
                return
            if len(self._layers.hosts) >= limits.MOST_HOSTS and name not in self._layers.hosts:
                message = f"the site names more than {limits.MOST_HOSTS:,} hosts"
                self._judge.stop(at, pattern, message, "write fewer")
            yield name, parsed.port


def _place(content: Mapping[Any, Any], key: object, otherwise: Position) -> Position:
    """Return where an entry of a dictionary is written: its key, or else its value."""
    return position_of(key) or position_of(content[key]) or otherwise
