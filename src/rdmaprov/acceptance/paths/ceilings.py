"""What the paths of a site carry at most, and the loopbacks of a node with what each must reach."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rdmaprov.acceptance.paths.pci import pci_hops
from rdmaprov.acceptance.paths.survey import SOFTWARE_BYTES, NodeSurvey
from rdmaprov.facts.errors import CouldNotTell
from rdmaprov.facts.pci import acs_redirects
from rdmaprov.facts.pci_links import Hop
from rdmaprov.inventory import Node
from rdmaprov.perftest.expected import SlotLimit, Wire, least_sentence, path_ceiling
from rdmaprov.perftest.loopback import (
    LoopbackCeiling,
    MemoryPlace,
    degraded,
    gpu_place,
    host_place,
    loopback_ceiling,
)
from rdmaprov.perftest.matrix import PathKey
from rdmaprov.perftest.model import End, PathTest

# What perftest itself measures with; what it reaches does not depend on it above some 64 KiB.
BANDWIDTH_BYTES = 1 << 20
Slots = Mapping[int, SlotLimit]
_RATE = re.compile(r"(\d+(?:\.\d+)?) Gb/sec")


@dataclass(frozen=True)
class SiteCeilings:
    """What paths carry at most."""

    # returns it, GB/s; None if it is not known, so that paths are only compared
    of_path: "PathCeilings | None"
    across: float  # the share of it that paths across leaves have when all of them send
    expected: str  # what a path must reach, and why, in sentences


def site_ceilings(nodes: Sequence[Node], slots: Slots) -> SiteCeilings:
    """Return what the paths between nodes carry at most."""
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
    """What each path carries at most, GB/s: the slower of its two ports."""

    def __init__(self, of_port: Mapping[tuple[str, int], float]) -> None:
        self._gb_s = of_port

    def __call__(self, path: PathKey) -> float:
        """Return the ceiling of a path, GB/s."""
        ports = (path.sender, path.rail), (path.receiver, path.into)
        return min(self._gb_s.get(port, math.inf) for port in ports)


@dataclass(frozen=True)
class HostCell:
    """A loopback of one rail through one memory."""

    test: PathTest
    place: MemoryPlace
    # what it can reach; None where no floor applies: Soft-RoCE, or unknown links
    ceiling: LoopbackCeiling | None
    cause: str  # what of its PCI path is not as it can be; empty if nothing is


def host_cells(name: str, survey: NodeSurvey) -> list[HostCell]:
    """Return the loopbacks of a node: each rail with each NUMA node's memory and each GPU."""
    return [cell for rail in survey.ports for cell in _rail_cells(name, rail, survey)]


def _rail_cells(name: str, rail: int, survey: NodeSurvey) -> Iterator[HostCell]:
    seen = survey.said["rails"][rail]
    nic, rate = pci_hops(seen["path"]), _RATE.match(seen["rate"])
    port_gbps = float(rate[1]) if rate else 0.0
    # A device that is no PCI function is software.
    size = BANDWIDTH_BYTES if seen["path"] else SOFTWARE_BYTES
    for number in survey.numa_nodes:
        end = End(name, rail, f"numa{number}")
        place = host_place(seen["numa"], number)
        yield HostCell(
            PathTest(end, end, size=size), place, _ceiling(port_gbps, nic), degraded(nic or ())
        )
    for gpu in survey.said["gpus"]:
        end = End(name, rail, f"gpu{gpu['index']}")
        ways = [[str(hop["address"]) for hop in each["path"]] for each in (seen, gpu)]
        place = gpu_place(ways[0], ways[1], seen["numa"], gpu["numa"])
        own = pci_hops(gpu["path"])
        ceiling = _ceiling(port_gbps, nic, own)
        cause = degraded(nic or ()) or degraded(own or (), may_idle=True)
        cause = cause or _redirects(survey, ways)
        yield HostCell(PathTest(end, end, size=size), place, ceiling, cause)


def _ceiling(port_gbps: float, *paths: tuple[Hop, ...] | None) -> LoopbackCeiling | None:
    known = [path for path in paths if path]
    return loopback_ceiling(port_gbps, *known) if port_gbps and len(known) == len(paths) else None


def _redirects(survey: NodeSurvey, paths: Sequence[Sequence[str]]) -> str:
    """Return which bridge between NIC and GPU sends their traffic through the CPU."""
    configs = survey.said.get("configs", {})
    for address in dict.fromkeys(each for path in paths for each in path[:-1]):
        try:
            found = acs_redirects(bytes.fromhex(configs.get(address, "")), address)
        except CouldNotTell:
            continue
        if found:
            return f"ACS of {address} redirects through the CPU ({', '.join(found)})"
    return ""


def host_rounds(cells: Sequence[HostCell]) -> list[list[HostCell]]:
    """Return the cells of a node in rounds: no two of a round share a rail or a memory.

    What is far passes the links between processors, so a round has one such cell at most.
    """
    rounds: list[tuple[set[str], list[HostCell]]] = []
    for cell in cells:
        end = cell.test.sender
        needs = {f"rail{end.rail}", end.memory, *(() if cell.place.is_near else ("far",))}
        for used, own in rounds:
            if not needs & used:
                used |= needs
                own.append(cell)
                break
        else:
            rounds.append((needs, [cell]))
    return [own for _, own in rounds]
