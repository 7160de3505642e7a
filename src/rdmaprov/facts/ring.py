"""Paths from each node to the next one, rail by rail, in a ring: not each with each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rdmaprov.facts import devices, gids
from rdmaprov.facts.text import CouldNotTell, Host
from rdmaprov.facts.wire import End
from rdmaprov.inventory import Node, Rail


@dataclass(frozen=True)
class Path:
    """One rail from a node to the next one."""

    near: Node
    far: Node
    rail: Rail
    far_rail: Rail
    ends: tuple[End, End]
    far_netdevs: tuple[str, ...]

    @property
    def device(self) -> str:
        """Return what a message names: the far end is in `where`."""
        return f"{self.ends[0].netdev} (rail {self.rail.index})"

    @property
    def to(self) -> str:
        """Return the far end in words."""
        return f"{self.far.name} {self.ends[1].netdev} {self.ends[1].address}"


def paths(nodes: Sequence[Node], hosts: Mapping[str, Host]) -> tuple[list[Path], list[str]]:
    """Return the paths of the ring, and a line for each that could not be told."""
    found, unknown = [], []
    ends: dict[str, dict[int, End]] = {}
    for node in nodes:
        try:
            ends[node.name] = _ends(node, hosts[node.name])
        except CouldNotTell as error:
            unknown.append(f"{node.name}: {error.why}")
    ring = [node for node in nodes if node.name in ends]
    for near, far in zip(ring, [*ring[1:], *ring[:1]], strict=True):
        here, there = ends[near.name], ends[far.name]
        netdevs = tuple(end.netdev for end in there.values())
        for rail, far_rail in zip(near.rails, far.rails, strict=False):
            if near is not far and rail.index in here and far_rail.index in there:
                both = (here[rail.index], there[far_rail.index])
                found.append(Path(near, far, rail, far_rail, both, netdevs))
    return found, unknown


def _ends(node: Node, host: Host) -> dict[int, End]:
    """Return the ends of a node's rails that have an address."""
    here, table = devices.read(host), gids.read(host)
    found = {}
    for rail in node.rails:
        if rail.address is None:
            continue
        port = devices.port_of(here, rail)
        rdma, address = port.require_rdma(), str(rail.address.ip)
        index = None
        if node.get("fabric_kind") == "roce":
            given = node.get("nccl_ib_gid_index")
            chosen = gids.chosen(table.get(rdma, ()), address)
            if given == -1 and chosen is None:
                raise CouldNotTell(f"{port.netdev} {rdma}: it has no RoCE v2 GID of {address}")
            index = chosen.index if given == -1 and chosen else given
        found[rail.index] = End(port.netdev, rdma, address, index)
    return found


def rounds(paths: Sequence[Path]) -> Iterator[list[Path]]:
    """Yield the paths in rounds in which no node is in two of them."""
    left = list(paths)
    while left:
        busy: set[str] = set()
        now: list[Path] = []
        later: list[Path] = []
        for path in left:
            names = {path.near.name, path.far.name}
            (later if names & busy else now).append(path)
            busy |= names if not names & busy else set()
        yield now
        left = later
