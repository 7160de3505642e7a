"""What the paths of a site carry at most: their lines, their slots, their uplinks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rdmaprov.inventory import Node
from rdmaprov.perftest.expected import SlotLimit, Wire, least_sentence, path_ceiling
from rdmaprov.perftest.matrix import PathKey

# What perftest itself measures with; what it reaches does not depend on it above some 64 KiB.
BANDWIDTH_BYTES = 1 << 20
Slots = Mapping[int, SlotLimit]


@dataclass(frozen=True)
class SiteCeilings:
    """What paths carry at most.

    Args:
        of_path: returns it, GB/s; None if it is not known, so that paths are only compared.
        across: the share of it that paths across leaves have when all of them send.
        expected: what a path must reach, and why, in sentences.
    """

    of_path: PathCeilings | None
    across: float
    expected: str


def site_ceilings(nodes: Sequence[Node], slots: Slots) -> SiteCeilings:
    """Return what the paths between nodes carry at most.

    Args:
        slots: what the slots of each rail can carry, where that is known.
    """
    wires: dict[tuple[str, int], Wire] = {}
    over = max((float(node.get("fabric_oversubscription") or 1.0) for node in nodes), default=1.0)
    for node in nodes:
        for rail in node.compute_rails:
            gbps = float(node.link_gbps(rail) or 0)
            kind = str(node.get("fabric_kind") or "roce")
            mtu = int(node.get("mtu_rdma_bytes") or 4096)
            wires[node.name, rail.index] = Wire(gbps, kind, mtu)
    rails = {(wire, rail) for (_, rail), wire in wires.items()}
    alone = {each: path_ceiling(each[0], BANDWIDTH_BYTES, slots.get(each[1])) for each in rails}
    slowest = min(rails, key=lambda each: alone[each].gb_s, default=(Wire(0), 0))
    if min((wire.link_gbps for wire in wires.values()), default=0) <= 0:
        said = "The site states no fabric_link_gbps: paths are only compared."
        return SiteCeilings(None, 1.0, said)
    crossing = path_ceiling(slowest[0], BANDWIDTH_BYTES, slots.get(slowest[1]), over, 1.0)
    expected = least_sentence(crossing if over > 1 else alone[slowest])
    of_port = {port: alone[wire, port[1]].gb_s for port, wire in wires.items()}
    return SiteCeilings(PathCeilings(of_port), crossing.gb_s / alone[slowest].gb_s, expected)


class PathCeilings:
    """What each path carries at most, GB/s: the slower of its two ports.

    Args:
        of_port: what each port carries, by node and rail.
    """

    def __init__(self, of_port: Mapping[tuple[str, int], float]) -> None:
        self._gb_s = of_port

    def __call__(self, path: PathKey) -> float:
        """Return the ceiling of a path, GB/s."""
        ports = (path.sender, path.rail), (path.receiver, path.into)
        return min(self._gb_s.get(port, math.inf) for port in ports)
