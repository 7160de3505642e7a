"""The nodes of a site from its hosts' variables."""

from __future__ import annotations

import gc
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rdmaprov.inventory import host_values, names
from rdmaprov.inventory.host_values import Locator
from rdmaprov.inventory.model import Node
from rdmaprov.inventory.resolve import ResolveError, Variables
from rdmaprov.inventory.schema import Schema
from rdmaprov.problem import Position, Problem

if TYPE_CHECKING:
    from rdmaprov.inventory.ansible_api import Host, Inventory
    from rdmaprov.inventory.host_positions import HostPositions

Conflict = tuple[str, str, str]


def conflicts(
    inventory: Inventory, groups: list[Any], known: Collection[str]
) -> tuple[Conflict, ...]:
    """Return (variable, group, other group) where only the alphabet decides which one wins.

    Groups of one depth and one priority override each other in the order of their names.
    """
    owners: dict[tuple[int, int, str], tuple[str, Any]] = {}
    found: list[Conflict] = []
    for group in groups:
        own = inventory.group_own_variables(group)
        for name, value in own.items():
            if str(name) not in known:
                continue
            key = (group.depth, group.priority, str(name))
            other, previous = owners.setdefault(key, (str(group.name), value))
            if other != str(group.name) and previous != value:
                found.append((str(name), other, str(group.name)))
    return tuple(found)


class NodeBuilder:
    """Makes nodes of hosts."""

    def __init__(
        self, site: Path, schema: Schema, inventory: Inventory, positions: HostPositions
    ) -> None:
        self._site = site
        self._schema = schema
        self._inventory, self._positions = inventory, positions
        self._conflict_cache: dict[tuple[str, ...], tuple[Conflict, ...]] = {}
        self._converter = host_values.Converter(schema.variables, schema.defaults)

    def node(self, host: Host, variables: Variables) -> tuple[Node | None, list[Problem]]:
        """Return a host as a node, and the problems of its variables.

        A host that the site calls no node has neither.
        """
        name = str(host.name)
        of_groups = self._inventory.group_variables(host)
        own = self._inventory.host_variables(host)
        locate = Locator(name, (own, of_groups), self._positions)
        values, problems = self._converter.values(name, variables, locate)
        if values.get("fabric_node") is False:
            return None, []
        rails, wrong = host_values.rails(name, values.get("fabric_rails", []), locate)
        problems += wrong
        problems += _connection_problems(name, variables, locate)
        groups = tuple(str(group.name) for group in self._inventory.groups_of(host))
        disputed = self._conflicts(groups, host)
        return Node(name, groups, values, rails, locate.written, disputed, locate), problems

    def _conflicts(self, groups: tuple[str, ...], host: Host) -> tuple[Conflict, ...]:
        """Return the conflicts of a set of groups, computed once for all hosts in it."""
        if groups not in self._conflict_cache:
            self._conflict_cache[groups] = conflicts(
                self._inventory, self._inventory.groups_of(host), self._schema.variables
            )
        own = self._inventory.host_variables(host) if self._conflict_cache[groups] else {}
        return tuple(one for one in self._conflict_cache[groups] if one[0] not in own)

    def magic(self, host: Host) -> Mapping[str, Any]:
        """Return what Ansible itself adds to a host's variables."""
        groups = [str(group.name) for group in self._inventory.groups_of(host)]
        return {
            "inventory_hostname": str(host.name),
            "inventory_hostname_short": str(host.name).split(".", maxsplit=1)[0],
            "group_names": sorted(group for group in groups if group != "all"),
            "inventory_dir": str(self._site),
        }


def _connection_problems(host: str, variables: Variables, locate: Locator) -> Iterator[Problem]:
    for name in names.CONNECTION:
        if name not in variables:
            continue
        try:
            value = str(variables.value(name))
        except ResolveError as error:
            at = error.position or locate(name)
            yield Problem(at, name, error.message, error.remedy, error.rule, (host,))
            continue
        if not names.is_safe(value):
            yield names.unsafe_name(name, value, locate(name), host)


def unsafe_host_names(hosts: Collection[str], positions: HostPositions) -> Iterator[Problem]:
    """Yield the hosts whose names cannot be given to ssh."""
    for name in hosts:
        if not names.is_safe(str(name)):
            yield names.unsafe_name("host", str(name), positions.host(str(name)), str(name))


def no_hosts(site: Path) -> Problem:
    """Return the problem of a site without hosts."""
    lab = site.name == "lab"
    remedy = "run `rdmaprov lab up`, which writes them" if lab else "write hosts into hosts.yml"
    at = Position(str(site / "hosts.yml"))
    return Problem(at, "hosts", "the site has no hosts", remedy, "required")


@contextmanager
def no_collection() -> Iterator[None]:
    """Stop the garbage collector: a load makes millions of objects that all stay.

    It would visit all of them again and again, so that each further host takes longer.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
