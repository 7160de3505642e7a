"""Which RDMA devices of a node are its rails."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rdmaprov.inventory.model import Node

_RATES = (10, 25, 40, 50, 56, 100, 200, 400, 800)
Device = Mapping[str, Any]


@dataclass(frozen=True)
class LeftOut:
    """An RDMA device that is no rail.

    Args:
        name: the device's.
        why: the reason, in words.

    """

    name: str
    why: str


def choose_rails(
    facts: Mapping[str, Any], node: Node | None = None
) -> tuple[list[Device], list[LeftOut]]:
    """Return the devices that are rails, by PCI address, and those that are not.

    A device that the site has as a rail stays one. Of the others, the management path, virtual
    functions, ports without a link, NICs away from all GPUs (for storage, mostly) and those unlike
    most others are none.

    Args:
        facts: the collector's output.
        node: the node in the site.

    """
    in_site = list(node.get("fabric_rails") or []) if node is not None else []
    left = sorted(facts["rails"], key=_place)
    fixed = [each for each in left if any(is_same_rail(entry, each) for entry in in_site)]
    out: list[LeftOut] = []
    rules: tuple[Callable[[Sequence[Device], Mapping[str, Any]], dict[str, str]], ...] = (
        _without_a_role,
        _without_a_link,
        _away_from_gpus,
        _unlike_most,
    )
    for rule in rules:
        why = rule(left, facts)
        gone = [each for each in left if each["device"] in why and each not in fixed]
        out += [LeftOut(each["device"], why[each["device"]]) for each in gone]
        left = [each for each in left if each not in gone]
    return left, out


def is_same_rail(entry: Mapping[str, Any], device: Device) -> bool:
    """Return whether a rail of the site is this device."""
    if entry.get("pci"):
        return bool(str(entry["pci"]).lower() == device["pci"])
    return bool(entry.get("netdev") == device["netdev"])


def nominal_gbps(gbps: float) -> int:
    """Return the rate that a link was sold with; 0 if it has none."""
    return min(_RATES, key=lambda rate: abs(rate - gbps)) if gbps >= min(_RATES) / 2 else 0


def shared_bridges(one: Sequence[str], other: Sequence[str]) -> int:
    """Return the number of bridges that two devices share, from the root port down."""
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


def _place(device: Device) -> tuple[object, ...]:
    """Return a sort key: PCI addresses are hexadecimal, and mlx5_10 comes after mlx5_2."""
    words = re.split(r"(\d+)", device["device"])
    natural = tuple(int(each) if each.isdigit() else each for each in words)
    return (device["pci"] == "", len(device["pci"]), device["pci"], natural)


def _without_a_role(devices: Sequence[Device], _: Mapping[str, Any]) -> dict[str, str]:
    found = {}
    for each in devices:
        if each["default_route"]:
            found[each["device"]] = f"the default route uses {each['netdev']}"
        elif not (each["netdev"] or each["pci"]):
            found[each["device"]] = "it has neither a network device nor a PCI address"
        elif each["is_virtual"]:
            found[each["device"]] = "it is a virtual function of another device here"
    return found


def _without_a_link(devices: Sequence[Device], _: Mapping[str, Any]) -> dict[str, str]:
    """Name ports that are not active, if others are: on a new node, none may be."""
    if not any(each["state"].startswith("4") for each in devices):
        return {}
    down = [each for each in devices if not each["state"].startswith("4")]
    return {each["device"]: f"its port is not active ({each['state']})" for each in down}


def _away_from_gpus(devices: Sequence[Device], facts: Mapping[str, Any]) -> dict[str, str]:
    """Name NICs without a PCIe switch in common with a GPU, if others have one."""
    near = [
        each
        for each in devices
        if any(shared_bridges(each["path"], gpu["path"]) for gpu in facts["gpus"])
    ]
    if not near:
        return {}
    why = "it shares no PCIe switch with a GPU"
    return {each["device"]: why for each in devices if each not in near}


def _unlike_most(devices: Sequence[Device], _: Mapping[str, Any]) -> dict[str, str]:
    """Name devices of another link layer or rate than most; of equally many, the slower."""
    kinds = {each["device"]: (each["link_layer"], nominal_gbps(each["gbps"])) for each in devices}
    known = Counter(kind for kind in kinds.values() if kind[1])
    if not known:
        return {}
    most = max(known, key=lambda kind: (known[kind], kind[1]))
    return {
        name: f"it is {kind[0]} of {kind[1]} Gb/s, most others are {most[0]} of {most[1]}"
        for name, kind in kinds.items()
        if kind[1] and kind != most
    }
