"""A fleet: its nodes and the values that each must have."""

from collections import Counter
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
    """One RDMA port of a node, as the site describes it."""

    index: int
    netdev: str  # its network device, empty if the site does not say it
    pci: str  # its PCI address, empty if the site does not say it
    address: Interface | None  # its address, None if the site gives none
    gateway: str  # the router of its subnet, empty if there is none
    gpus: tuple[int, ...]  # the GPUs that use it, by index
    use: str = "compute"  # `compute` or `storage`
    link_gbps: int = 0  # its line rate in Gb/s, 0 if it is fabric_link_gbps
    vlan: bool = False
    # its RDMA device, empty if the site does not say it. A rail of InfiniBand may have no other
    # name.
    rdma: str = ""
    leaf: str = ""  # the switch that it is on, empty if the site does not say it
    # partition keys of its port as the site writes them, None if they are fabric_partition_keys
    pkeys: tuple[str, ...] | None = None
    subnet_prefix: str = ""  # of its InfiniBand subnet as the site writes it, empty if it does not
    switch_port: str = ""  # the port of that switch, empty if the site does not say it
    # the partition whose IPoIB interface is its network device, as the site writes it; empty if
    # that is the port's own
    ipoib_pkey: str = ""

    @property
    def name(self) -> str:
        """Return what the site finds its devices by."""
        return self.netdev or self.pci or self.rdma

    @property
    def described(self) -> dict[str, str]:
        """Return how the site names it, for programs on the node."""
        named = {"netdev": self.netdev, "pci": self.pci}
        if self.ipoib_pkey:
            named["ipoib_pkey"] = self.ipoib_pkey
        return named if self.netdev or self.pci else {**named, "rdma": self.rdma}


@dataclass(frozen=True)
class Node:
    """One host with its desired state."""

    name: str
    groups: tuple[str, ...]  # its groups, highest precedence last
    # every public variable that has a value, typed, role defaults included
    values: Mapping[str, Any]
    rails: tuple[Rail, ...]
    written: frozenset[str]  # names of the variables that the site sets itself
    # variable and two groups of equal precedence that set it differently
    conflicts: tuple[tuple[str, str, str], ...]
    # returns where a variable, or a part of it, is written
    locate: Callable[..., Position] = field(repr=False, compare=False)

    def get(self, name: str) -> Any:
        """Return a variable's value, None if it is missing or invalid."""
        return self.values.get(name)

    @property
    def leaf(self) -> str:
        """Return its leaf switch, empty if the site does not say it."""
        return str(self.get("fabric_leaf") or "")

    @property
    def uses_netdevs(self) -> bool:
        """Return whether the rails' network devices are used; on InfiniBand, IPoIB's may not be."""
        return self.get("fabric_kind") != "infiniband" or self.get("fabric_ipoib") is not False

    @property
    def compute_rails(self) -> tuple[Rail, ...]:
        """Return the rails that collectives run over; they come before those of storage."""
        return tuple(rail for rail in self.rails if rail.use == "compute")

    @property
    def planes(self) -> dict[tuple[str, int], Rail]:
        """Return the rails by the network plane they belong to: their use, and number of it."""
        numbers: Counter[str] = Counter()
        found = {}
        for rail in self.rails:
            found[rail.use, numbers[rail.use]] = rail
            numbers[rail.use] += 1
        return found

    def link_gbps(self, rail: Rail) -> int:
        """Return a rail's line rate in Gb/s, 0 if the site does not say it."""
        return int(rail.link_gbps or self.get("fabric_link_gbps") or 0)


def _no_variables(node: str, _defaults: Mapping[str, Any] | None = None) -> Variables:
    raise KeyError(node)


@dataclass(frozen=True)
class Fleet:
    """A site, loaded."""

    site: Path
    nodes: tuple[Node, ...]  # those that match the limit, in the inventory's order
    # those of files, names, templates and types; rdmaprov.contract adds those of the rules between
    # variables
    problems: tuple[Problem, ...]
    # returns the values that must not be shown, as text; can take seconds
    secrets: Callable[[], frozenset[str]] = field(default=frozenset, repr=False, compare=False)
    # returns all variables of a node, by its name, including connection variables; each is rendered
    # on first use
    variables: Callable[[str], Variables] = field(default=_no_variables, repr=False, compare=False)
    # returns the variables that roles with these defaults get on a node, by its name; a template
    # that needs Ansible at run time is an error
    role_variables: Callable[[str, Mapping[str, Any]], Variables] = field(
        default=_no_variables, repr=False, compare=False
    )
    # names of all hosts of the inventory, whether they are nodes and match the limit or not
    hosts: tuple[str, ...] = ()
