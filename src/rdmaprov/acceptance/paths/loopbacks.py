"""The loopbacks of a node: which there are, which run at once, and what each must reach."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rdmaprov.acceptance.paths.ceilings import BANDWIDTH_BYTES
from rdmaprov.acceptance.paths.pci import pci_hops
from rdmaprov.acceptance.paths.survey import SOFTWARE_BYTES, NodeSurvey
from rdmaprov.facts.errors import CouldNotTell
from rdmaprov.facts.pci import acs_redirects
from rdmaprov.facts.pci_links import Hop
from rdmaprov.perftest.loopback import (
    LoopbackCeiling,
    MemoryPlace,
    degraded,
    gpu_place,
    host_place,
    loopback_ceiling,
)
from rdmaprov.perftest.model import End, PathTest

_RATE = re.compile(r"(\d+(?:\.\d+)?) Gb/sec")


@dataclass(frozen=True)
class HostCell:
    """A loopback of one rail through one memory.

    Args:
        ceiling: what it can reach; None where no floor applies: Soft-RoCE, or unknown links.
        cause: what of its PCI path is not as it can be; empty if nothing is.
    """

    test: PathTest
    place: MemoryPlace
    ceiling: LoopbackCeiling | None
    cause: str


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
