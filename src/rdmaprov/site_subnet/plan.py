"""What a site says of its InfiniBand subnet: each rail's port, and the switches above."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from rdmaprov.errors import UsageError
from rdmaprov.inventory.model import Fleet
from rdmaprov.inventory.partitions import partition_keys
from rdmaprov.problem import display_path


@dataclass(frozen=True)
class PlannedRail:
    """One rail of a node."""

    node: str
    index: int
    device: str = ""  # its RDMA device; empty if the site does not say it
    leaf: str = ""  # the node description of its leaf; empty if the site does not say it
    group: str = ""  # the node's fabric_leaf: nodes with the same one share the leaf of this rail
    gbps: int = 0  # its line rate, in Gb/s; 0 if the site does not say it
    pkeys: tuple[int, ...] = ()  # the partition keys that its port must have; none if any are right

    @property
    def label(self) -> str:
        """Return how a message names the rail."""
        return f"{self.node} rail {self.index}"


@dataclass(frozen=True)
class SubnetPlan:
    """The InfiniBand subnet that a site describes."""

    rails: tuple[PlannedRail, ...]  # of all nodes, in the order of the site
    # names of the switches above the leaves; empty if the site does not say them
    spines: tuple[str, ...] = ()
    others: tuple[str, ...] = ()  # patterns of hosts that are no nodes of the site
    hosts: tuple[str, ...] = ()
    is_whole: bool = True  # whether the nodes are all nodes of the site
    sharp: bool = False
    # the nodes that run a subnet manager, the master first; empty for a manager that is not the
    # site's
    managers: tuple[str, ...] = ()
    beside: frozenset[int] = frozenset()  # GUIDs of other managers that may be there
    engine: str = ""  # the routing engine that the tables are to be of; empty for any

    @property
    def nodes(self) -> tuple[str, ...]:
        """Return the names of the nodes, in the order of the site."""
        return tuple(dict.fromkeys(rail.node for rail in self.rails))

    def expects(self, host: str) -> bool:
        """Return whether a host may be in the subnet without being a node of the plan."""
        named = {name for each in self.hosts for name in host_keys(each)}
        if not named.isdisjoint(host_keys(host)):
            return True
        return any(fnmatchcase(host.lower(), pattern.lower()) for pattern in self.others)


def host_keys(name: str) -> tuple[str, ...]:
    """Return the names under which a host is found: with its domain, and without.

    >>> host_keys("GPU01.cluster.example")
    ('gpu01.cluster.example', 'gpu01')
    """
    lower = name.lower()
    return tuple(dict.fromkeys((lower, lower.partition(".")[0])))


def plan_of(fleet: Fleet, *, is_whole: bool) -> SubnetPlan:
    """Return the plan of a site's InfiniBand nodes; raise UsageError if no node has InfiniBand."""
    nodes = [node for node in fleet.nodes if node.get("fabric_kind") == "infiniband"]
    if not nodes:
        site = display_path(str(fleet.site), Path.cwd())
        raise UsageError(
            f"{site}: no node has InfiniBand (fabric_kind)",
            f"For RoCE, verify each rail: rdmaprov validate {site}",
        )
    rails = tuple(
        PlannedRail(
            node.name,
            rail.index,
            rail.rdma,
            rail.leaf,
            node.leaf,
            node.link_gbps(rail),
            partition_keys(node, rail),
        )
        for node in nodes
        for rail in node.rails
    )
    return SubnetPlan(
        rails,
        _union(node.get("fabric_spines") for node in nodes),
        _union(node.get("fabric_other_hosts") for node in nodes),
        fleet.hosts,
        is_whole,
        any(node.get("fabric_sharp") == "wanted" for node in nodes),
        _union(node.get("subnet_manager_hosts") for node in nodes),
        frozenset(_guids(_union(node.get("subnet_manager_beside") for node in nodes))),
        next((str(node.get("fabric_routing_engine") or "") for node in nodes), ""),
    )


def _guids(texts: Iterable[str]) -> Iterable[int]:
    for text in texts:
        with suppress(ValueError):  # the contract reports it
            yield int(text, 16)


def _union(lists: Iterable[Sequence[str] | None]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(str(name) for own in lists for name in own or ()))
