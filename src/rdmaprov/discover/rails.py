"""Which RDMA devices of a node are its rails."""

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
    """An RDMA device that is no rail."""

    name: str
    why: str


def choose_rails(
    facts: Mapping[str, Any], node: Node | None = None
) -> tuple[list[Device], list[LeftOut]]:
    """Return the devices that are rails, by PCI address, and those that are not.

    A device that the site has as a rail stays one. Of the others, the management path, virtual
    functions, ports of NVSwitches, ports without a link, NICs away from all GPUs (for storage,
    mostly) and those unlike most others are none. A port without a link stays a rail if its card is
    one of many: it is a rail to repair.
    """
    in_site = list(node.get("fabric_rails") or []) if node is not None else []
    left = sorted(facts["rails"], key=_place)
    fit = [each for each in left if not each["unfit"]]
    fixed = [each for each in fit if any(is_same_rail(entry, each) for entry in in_site)]
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
    if entry.get("rdma") and not entry.get("netdev"):
        return bool(entry["rdma"] == device["device"])
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
        if each["unfit"]:
            found[each["device"]] = each["unfit"]
        elif each["default_route"]:
            found[each["device"]] = f"the default route uses {each['netdev']}"
        elif not (each["netdev"] or each["pci"]):
            found[each["device"]] = "it has neither a network device nor a PCI address"
        elif each["manages_nvswitch"]:
            found[each["device"]] = "it manages NVSwitches (SW_MNG in its VPD)"
        elif each["is_virtual"]:
            found[each["device"]] = "it is a virtual function of another device here"
    return found


def _without_a_link(devices: Sequence[Device], facts: Mapping[str, Any]) -> dict[str, str]:
    """Name ports without a link.

    Not that of a card which most cards of its model show to be a rail: it is a rail to repair. Nor
    any port of the most frequent model, if none of its cards has a link yet; but alone, and away
    from all GPUs, a card without a link is a spare.
    """
    cards = _cards(devices)
    up = {model: sum(map(_has_link, each)) for model, each in cards.items()}
    down = {model: len(each) - up[model] for model, each in cards.items()}
    most_up = max(up.values(), default=0)
    new = {model for model in cards if not up[model] and down[model] > most_up}
    if not any(up.values()) and facts["gpus"] and max(down.values(), default=0) == 1:
        new = set() if not _near_gpus(devices, facts) else new
    kept = {model for model in cards if model and up[model] > down[model] > 0} | new
    return {
        each["device"]: f"its port is not active ({each['state']})"
        for model, of_model in cards.items()
        for card in of_model
        for each in card
        if is_down(each) and (model not in kept or _has_link(card))
    }


def is_down(device: Device) -> bool:
    """Return whether a port has no link; what its rate shows then means nothing."""
    return bool(device["state"]) and not device["state"].startswith("4")


def _has_link(card: Sequence[Device]) -> bool:
    return not all(map(is_down, card))


def _cards(devices: Sequence[Device]) -> dict[str, list[list[Device]]]:
    """Return the cards of each model, each as its ports: functions of one slot, or of one GUID."""
    cards: dict[str, dict[str, list[Device]]] = {}
    for each in devices:
        card = each["card"] or each["pci"].rpartition(".")[0] or each["device"]
        cards.setdefault(each["model"], {}).setdefault(card, []).append(each)
    return {model: list(of.values()) for model, of in cards.items()}


def _away_from_gpus(devices: Sequence[Device], facts: Mapping[str, Any]) -> dict[str, str]:
    """Name NICs without a PCIe switch in common with a GPU, if others have one."""
    near = _near_gpus(devices, facts)
    if not near:
        return {}
    why = "it shares no PCIe switch with a GPU"
    return {each["device"]: why for each in devices if each not in near}


def _near_gpus(devices: Sequence[Device], facts: Mapping[str, Any]) -> list[Device]:
    """Return the NICs with a PCIe switch in common with a GPU."""
    return [
        each
        for each in devices
        if any(shared_bridges(each["path"], gpu["path"]) for gpu in facts["gpus"])
    ]


def _unlike_most(devices: Sequence[Device], _: Mapping[str, Any]) -> dict[str, str]:
    """Name devices of another link layer or rate than most; of equally many, the slower.

    A port without a link has the rate of others of its model; if none has a link, an unknown one.
    """
    rates = {each["model"]: 0 for each in devices}
    for each in devices:
        rates[each["model"]] = max(rates[each["model"]], link_gbps(each))
    kinds = {
        each["device"]: (each["link_layer"], link_gbps(each) or rates[each["model"]])
        for each in devices
    }
    count = Counter(kinds.values())
    if not count:
        return {}
    most = max(count, key=lambda kind: (count[kind], kind[1]))
    return {
        name: f"it is {_kind(kind)}, most others are {_kind(most)}"
        for name, kind in kinds.items()
        if kind != most and (kind[0] != most[0] or kind[1])
    }


def link_gbps(device: Device) -> int:
    """Return the rate that a port's link was sold with; 0 if it has none, or it is unknown."""
    return 0 if is_down(device) else nominal_gbps(device["gbps"])


def _kind(kind: tuple[str, int]) -> str:
    layer, rate = kind
    return f"{layer} of {rate} Gb/s" if rate else f"{layer} without a link"
