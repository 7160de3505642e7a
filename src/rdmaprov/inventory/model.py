"""A fleet: its nodes and what each must be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Interface, IPv6Interface
from pathlib import Path
from typing import Any

from rdmaprov.inventory.resolve import Variables
from rdmaprov.problem import Position, Problem

Interface = IPv4Interface | IPv6Interface


@dataclass(frozen=True)
class Rail:
    """One RDMA port of a node, as the site describes it.

    Args:
        index: its place in fabric_rails; the network plane it belongs to.
        netdev: its network device, empty if the site names the PCI address.
        pci: its PCI address, empty if the site names the network device.
        address: its address, None if the site gives none.
        gateway: the router of its subnet, empty if there is none.
        gpus: the GPUs that use it, by index.

    """

    index: int
    netdev: str
    pci: str
    address: Interface | None
    gateway: str
    gpus: tuple[int, ...]


@dataclass(frozen=True)
class Node:
    """One host with its desired state.

    Args:
        name: as in the inventory.
        groups: its groups, those that override last.
        values: every public variable that has a value, typed, role defaults included.
        rails: fabric_rails.
        written: names of the variables that the site sets itself.
        conflicts: variable and two groups that set it differently, with equal right.
        locate: where a variable, or a part of it, is written.

    """

    name: str
    groups: tuple[str, ...]
    values: Mapping[str, Any]
    rails: tuple[Rail, ...]
    written: frozenset[str]
    conflicts: tuple[tuple[str, str, str], ...]
    locate: Callable[..., Position] = field(repr=False, compare=False)

    def get(self, name: str) -> Any:
        """Return a variable's value, None if it has none or a wrong one."""
        return self.values.get(name)


def _no_variables(node: str, _defaults: Mapping[str, Any] | None = None) -> Variables:
    raise KeyError(node)


@dataclass(frozen=True)
class Fleet:
    """A site, loaded.

    Args:
        site: its directory.
        nodes: those that the limit leaves, in the inventory's order.
        problems: what is wrong with files, names, templates and types. Rules between
            variables are the contract's.
        secrets: finds the values that must not be shown, as text; takes a while.
        variables: returns all variables of a node, by its name, also those that are no role's,
            such as how to reach it; each is rendered when it is asked for.
        role_variables: returns what roles with these defaults are given on a node, by its name;
            what only Ansible knows, when it runs, is an error.

    """

    site: Path
    nodes: tuple[Node, ...]
    problems: tuple[Problem, ...]
    secrets: Callable[[], frozenset[str]] = field(default=frozenset, repr=False, compare=False)
    variables: Callable[[str], Variables] = field(default=_no_variables, repr=False, compare=False)
    role_variables: Callable[[str, Mapping[str, Any]], Variables] = field(
        default=_no_variables, repr=False, compare=False
    )
