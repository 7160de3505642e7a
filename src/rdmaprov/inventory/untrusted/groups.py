"""Hosts and groups of a stranger's site, merged by Ansible's default precedence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rdmaprov.inventory.untrusted import limits
from rdmaprov.inventory.untrusted.judge import SiteJudge
from rdmaprov.problem import Position


@dataclass(eq=False)
class PlainGroup:
    """A group, with the variables of its own."""

    name: str
    at: Position
    depth: int = 0
    priority: int = 1
    vars: dict[str, Any] = field(default_factory=dict)
    files: dict[str, Any] = field(default_factory=dict)
    children: dict[str, PlainGroup] = field(default_factory=dict)
    parents: list[PlainGroup] = field(default_factory=list)
    hosts: dict[str, PlainHost] = field(default_factory=dict)
    above: frozenset[PlainGroup] = frozenset()


@dataclass(eq=False)
class PlainHost:
    """A host, with the variables of its own."""

    name: str
    at: Position
    vars: dict[str, Any] = field(default_factory=dict)
    files: dict[str, Any] = field(default_factory=dict)
    groups: dict[str, PlainGroup] = field(default_factory=dict)


class PlainLayers:
    """The hosts and groups of a site; filled by the reader of inventory files, then connected."""

    def __init__(self, site: Position) -> None:
        self._site = site
        self.groups: dict[str, PlainGroup] = {}
        self.hosts: dict[str, PlainHost] = {}
        self._sorted: dict[tuple[str, ...], list[PlainGroup]] = {}
        self._merged: dict[tuple[str, ...], dict[str, Any]] = {}
        self._own: dict[str, dict[str, Any]] = {}
        self.add_child(self.group("all", site), self.group("ungrouped", site))

    def group(self, name: str, at: Position) -> PlainGroup:
        """Return a group; it is new if there is none of the name."""
        return self.groups.setdefault(name, PlainGroup(name, at))

    @staticmethod
    def add_child(parent: PlainGroup, child: PlainGroup) -> None:
        """Put a group into another one."""
        if child.name not in parent.children:
            parent.children[child.name] = child
            child.parents.append(parent)

    def add_host(self, group: PlainGroup, name: str, at: Position) -> PlainHost:
        """Return a host, which is put into a group."""
        host = self.hosts.setdefault(name, PlainHost(name, at))
        group.hosts[name] = host
        host.groups[group.name] = group
        return host

    def host(self, name: str) -> Position:
        """Return where a host is named."""
        return self.hosts[name].at if name in self.hosts else self._site

    def connect(self, judge: SiteJudge) -> None:
        """Put every group into `all`, every other host into `ungrouped`; find loops of groups."""
        everyone, rest = self.groups["all"], self.groups["ungrouped"]
        for group in self.groups.values():
            if group is not everyone and not group.parents:
                self.add_child(everyone, group)
        for host in self.hosts.values():
            named = host.groups.keys() - {"all", "ungrouped"}
            if named and "ungrouped" in host.groups:
                del host.groups["ungrouped"], rest.hosts[host.name]
            elif not named and "ungrouped" not in host.groups:
                self.add_host(rest, host.name, host.at)
        self._measure(judge)

    def _measure(self, judge: SiteJudge) -> None:
        """Set each group's depth and the groups above it, from the top down."""
        waiting = {group: len(group.parents) for group in self.groups.values()}
        ready = [group for group, parents in waiting.items() if not parents]
        while ready:
            group = ready.pop()
            del waiting[group]
            for parent in group.parents:
                group.depth = max(group.depth, parent.depth + 1)
                group.above |= {parent, *parent.above}
            if len(group.above) > limits.MOST_GROUPS_ABOVE:
                message = f"is in more than {limits.MOST_GROUPS_ABOVE} groups"
                judge.stop(group.at, group.name, message, "nest groups less deeply")
            for child in group.children.values():
                waiting[child] -= 1
                if not waiting[child]:
                    ready.append(child)
        for group in waiting:
            if group.name != "all":
                message = "is in a loop of groups, or below one"
                judge.refuse(group.at, [group.name], message, "remove one of the children")

    def ordered_hosts(self) -> Iterable[PlainHost]:
        """Return the hosts in Ansible's order: by group, from the top down."""
        found: dict[str, PlainHost] = {}
        level, seen = [self.groups["all"]], {"all"}
        while level:
            for group in level:
                found |= {name: host for name, host in group.hosts.items() if name not in found}
            below = [child for group in level for child in group.children.values()]
            level = list({g.name: g for g in below if g.name not in seen}.values())
            seen |= {group.name for group in level}
        return found.values()

    def groups_of(self, host: PlainHost) -> list[PlainGroup]:
        """Return the host's groups in the order in which they override each other."""
        key = tuple(host.groups)
        if key not in self._sorted:
            groups = {above for group in host.groups.values() for above in (group, *group.above)}
            self._sorted[key] = sorted(groups, key=lambda g: (g.depth, g.priority, g.name))
        return self._sorted[key]

    def group_own_variables(self, group: PlainGroup) -> Mapping[str, Any]:
        """Return the variables of one group, from the inventory and group_vars."""
        return merge([group.vars, group.files])

    def group_variables(self, host: PlainHost) -> Mapping[str, Any]:
        """Return the host's variables from its groups; hosts of the same groups share them."""
        key = tuple(host.groups)
        if key not in self._merged:
            groups = self.groups_of(host)
            everyone = [group for group in groups if group.name == "all"]
            others = [group for group in groups if group.name != "all"]
            parts = [group.vars for group in (*everyone, *others)]
            self._merged[key] = merge([*parts, *(group.files for group in (*everyone, *others))])
        return self._merged[key]

    def host_variables(self, host: PlainHost) -> Mapping[str, Any]:
        """Return the variables of one host, from the inventory and host_vars."""
        if host.name not in self._own:
            self._own[host.name] = merge([host.vars, host.files])
        return self._own[host.name]


def merge(layers: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the layers merged; the later one's keys and values stay.

    The key stays with its value: it has the place of `true`, `false` and nothing.
    """
    merged: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            merged.pop(key, None)
            merged[key] = value
    return merged
