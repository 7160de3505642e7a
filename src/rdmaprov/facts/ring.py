"""Paths from each node to the next one, rail by rail, in a ring: not each with each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from rdmaprov.facts import devices, gids, lower_ports, rails
from rdmaprov.facts.errors import CouldNotTell
from rdmaprov.facts.host import AnsweredHost, Result
from rdmaprov.facts.text import files_command
from rdmaprov.facts.wire import RailEnd
from rdmaprov.inventory import Node, Rail


@dataclass(frozen=True)
class Path:
    """One rail from a node to the next one; `far_netdevs` has the ports of all its rails."""

    near: Node
    far: Node
    rail: Rail
    far_rail: Rail
    ends: tuple[RailEnd, RailEnd]
    far_netdevs: tuple[str, ...]

    def risen(self, by_netdev: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
        """Return by how much the counters of the rail's ports at the far end rose together."""
        total: dict[str, int] = {}
        for netdev in self.ends[1].ports:
            for name, value in by_netdev.get(netdev, {}).items():
                total[name] = total.get(name, 0) + value
        return total

    @property
    def device(self) -> str:
        """Return what a message names: the far end is in `where`."""
        return f"{self.ends[0].netdev} (rail {self.rail.index})"

    @property
    def lacks(self) -> str:
        """Return which end has no GID that NCCL could use; empty if both have one."""
        if self.near.get("fabric_kind") == "roce":
            for node, end in zip((self.near, self.far), self.ends, strict=True):
                if end.gid_index is None:
                    return f"{node.name} {end.rdma} has no GID for NCCL of {end.address}"
        return ""

    @property
    def to(self) -> str:
        """Return the far end in words."""
        return f"{self.far.name} {self.ends[1].netdev} {self.ends[1].address}"


class FleetRunner(Protocol):
    """Many nodes, asked at the same time."""

    def run(
        self, commands: Mapping[str, str], time_limit_s: float | None = None
    ) -> Mapping[str, Result | Exception]:
        """Return what a command of each node gave, by the node's name."""


def paths(nodes: Sequence[Node], hosts: FleetRunner) -> tuple[list[Path], list[str]]:
    """Return the paths of the ring, and a line for each node that is unknown.

    An unknown node is left out, and the ring closes without it.
    """
    found, unknown = [], []
    ends: dict[str, dict[int, RailEnd]] = {}
    for name, host in _read_hosts(nodes, hosts).items():
        node = next(each for each in nodes if each.name == name)
        try:
            ends[name] = _ends(node, host)
        except CouldNotTell as error:
            unknown.append(f"{name}: {error.why}")
    ring = [node for node in nodes if node.name in ends]
    for near, far in zip(ring, [*ring[1:], *ring[:1]], strict=True):
        here, there = ends[near.name], ends[far.name]
        netdevs = tuple(dict.fromkeys(each for end in there.values() for each in end.ports))
        planes = far.planes
        for plane, rail in near.planes.items():
            far_rail = planes.get(plane)
            if far_rail and near is not far and rail.index in here and far_rail.index in there:
                both = (here[rail.index], there[far_rail.index])
                found.append(Path(near, far, rail, far_rail, both, netdevs))
    return found, unknown


def _read_hosts(nodes: Sequence[Node], hosts: FleetRunner) -> dict[str, AnsweredHost]:
    """Return hosts that know the devices and GIDs of their node, read from all at once."""
    commands = (
        devices.LISTING,
        files_command(*devices.ATTRIBUTES),
        files_command(*gids.PATHS, quiet=True),
    )
    answers = {each: hosts.run({node.name: each for node in nodes}) for each in commands}
    return {
        node.name: AnsweredHost({each: answers[each][node.name] for each in commands})
        for node in nodes
    }


def _ends(node: Node, host: AnsweredHost) -> dict[int, RailEnd]:
    """Return the ends of a node's rails that have an address."""
    here, table = devices.read(host), gids.read(host)
    found = {}
    for rail in node.rails:
        if rail.address is None:
            continue
        port = rails.port_of(here, rail)
        rdma, address = port.require_rdma(), str(rail.address.ip)
        mac, index = here.netdev(port.require_netdev(), "address"), None
        if node.get("fabric_kind") == "roce":
            given, there = node.get("nccl_ib_gid_index"), table.get(rdma, ())
            chosen = gids.nccl_gid(there, address)
            if given != -1:
                chosen = next((gid for gid in there if gid.index == given), None)
            index = None if chosen is None else chosen.index
        ports = tuple(each.netdev for each in lower_ports.ports_of(here, rail))
        found[rail.index] = RailEnd(port.netdev, rdma, mac, address, index, ports)
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
