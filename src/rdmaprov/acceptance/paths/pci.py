"""The PCI paths of rails and GPUs, as node/path_reader.py reads them."""

import math
import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rdmaprov.acceptance.paths.survey import NodeSurvey
from rdmaprov.bandwidth.fabric import Fabric, Slot, slot_like
from rdmaprov.bandwidth.gpus import slot_of
from rdmaprov.boundary import Document
from rdmaprov.facts.pci_links import Hop, Link, pair_hops
from rdmaprov.inventory import Node
from rdmaprov.perftest.expected import SlotLimit
from rdmaprov.perftest.loopback import gpu_place, loopback_ceiling

_SPEED = re.compile(r"(\d+(?:\.\d+)?) GT/s")
Port = tuple[str, int]


def pci_hops(path: Sequence[Mapping[str, Any]]) -> tuple[Hop, ...] | None:
    """Return the links to a device; None if one of them is not shown, as in virtual machines."""
    links = {hop["address"]: _links(hop["link"]) for hop in path}
    if any(each is None for each in links.values()):
        return None
    return pair_hops(list(links), {name: each for name, each in links.items() if each})


def _links(texts: Sequence[str]) -> tuple[Link, Link] | None:
    """Return what a function's link runs at, and what it can do."""
    found = []
    for speed, width in (texts[:2], texts[2:]):
        match = _SPEED.match(speed)
        if match is None or not width.isdecimal() or not int(width):
            return None
        found.append(Link(float(match[1]), int(width)))
    return found[0], found[1]


def with_slots(fabric: Fabric, nodes: Sequence[Node], facts: Mapping[str, Document]) -> Fabric:
    """Return a fabric with the slots that most of its cards and GPUs have, by what links can do."""
    rails, gpus, cards, direct = [], [], [], False
    for node in nodes:
        said = facts[node.name].get("slots", {"rails": [], "gpus": [], "direct": False})
        own = said["rails"][: len(node.compute_rails)]
        rails += [_slot(path) for path in own]
        cards.append(len({path[0]["address"] for path in own if path}))
        gpus += [_slot(path) for path in said["gpus"]]
        direct |= said["direct"]
    names = {str(gpu.get("name")) for node in nodes for gpu in facts[node.name]["gpus"]["gpus"]}
    gpu = named if (named := slot_of(names)) == Slot(6, 16) else _most_common(gpus) or named
    # Data Direct, and PCIe 6 from NIC to GPU, are ways past the NIC's own slot.
    nic = None if direct or (gpu and gpu.generation > 5) else _most_common(rails)
    count = Counter(cards).most_common(1)[0][0] if nic else 0
    return replace(fabric, pcie=nic, gpu_pcie=gpu, cards=count)


def _slot(path: Sequence[Mapping[str, Any]]) -> Slot | None:
    found = pci_hops(path) if path else None
    return slot_like(found[-1].most.gt_s, found[-1].most.width) if found else None


def _most_common(slots: Sequence[Slot | None]) -> Slot | None:
    """Return the slot of most; None if one of them is not shown."""
    return Counter(slots).most_common(1)[0][0] if slots and all(slots) else None


def usual_slots(surveys: Iterable[NodeSurvey]) -> dict[int, SlotLimit]:
    """Return what the slot of each rail can carry on most nodes; nothing of rails not shown.

    It is what both ends of a link can do, not what it runs at, and that of most nodes: a slot that
    trained badly, or a riser that has half the lanes of the others', is no excuse for its rail.
    """
    by_rail: dict[int, list[SlotLimit]] = defaultdict(list)
    for survey in surveys:
        for rail in survey.ports:
            if hops := pci_hops(survey.said["rails"][rail]["path"]):
                best = loopback_ceiling(math.inf, *[hops])
                by_rail[rail].append(SlotLimit(best.gb_s, best.reason))
    return {rail: _usual(own) for rail, own in by_rail.items()}


def _usual(limits: Sequence[SlotLimit]) -> SlotLimit:
    middle = statistics.median_high(limit.gb_s for limit in limits)
    return next(limit for limit in limits if limit.gb_s == middle)


def near_gpus(surveys: Mapping[str, NodeSurvey]) -> dict[Port, str]:
    """Return the memory of a GPU under the same PCI switch as each rail, where there is one.

    Each rail of a node has a GPU of its own as far as there are enough.
    """
    found: dict[Port, str] = {}
    for name, survey in surveys.items():
        taken: set[int] = set()
        for rail in survey.ports:
            near = [gpu["index"] for gpu in survey.said["gpus"] if _is_near(survey, rail, gpu)]
            own = next((gpu for gpu in near if gpu not in taken), next(iter(near), None))
            if own is not None:
                taken.add(own)
                found[name, rail] = f"gpu{own}"
    return found


def _is_near(survey: NodeSurvey, rail: int, gpu: Mapping[str, Any]) -> bool:
    seen = survey.said["rails"][rail]
    ways = [[str(hop["address"]) for hop in each["path"]] for each in (seen, gpu)]
    return gpu_place(ways[0], ways[1], seen["numa"], gpu["numa"]).is_near
