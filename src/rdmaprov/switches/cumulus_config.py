"""What NVUE has configured: `nv config show -o json`, or the root of its API."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from rdmaprov.switches.model import EcnCurve, PfcWatchdog, QueueShare, SwitchFact
from rdmaprov.switches.shapes import inner, members, numbers, size_bytes, whole, words

_ROOT = "header"  # a key of the API's root, which has defaults, too
_GLOBAL = "default-global"
_REMEDIES = {
    SwitchFact.PFC: "pfc",
    SwitchFact.TRUST: "mapping",
    SwitchFact.DSCP_MAP: "mapping",
    SwitchFact.ECN: "congestion-control",
}
# What the modes of RoCE set: NVIDIA's documentation, "RDMA over Converged Ethernet - RoCE", table
# "Default RoCE Configuration". Mode lossy-multi-tc differs by release, and is not here.
_LOSSY: dict[str, Any] = {
    "pfc_rx": frozenset(),
    "pfc_tx": frozenset(),
    "trusts_dscp": True,
    "dscp_class": {dscp: dscp >> 3 for dscp in range(64)},
    "class_queue": {number: number if number in (3, 6) else 0 for number in range(8)},
    "ecn": {3: EcnCurve(True, 150_000, 1_501_500, percent=100)},
    "shares": {0: QueueShare(False, 50), 3: QueueShare(False, 50), 6: QueueShare(True)},
}
_LOSSLESS = {**_LOSSY, "pfc_rx": frozenset({3}), "pfc_tx": frozenset({3})}
_MODES = {"lossy": _LOSSY, "lossless": _LOSSLESS, "lossless-single-ipool": _LOSSLESS}


def _mode(roce: object) -> object:
    """Return the mode of RoCE that is on, None if none is; lossless is NVUE's default."""
    if not isinstance(roce, dict) or is_on(roce.get("enable", roce.get("state"))) is False:
        return None
    return roce.get("mode", "lossless")


def configuration(document: object) -> Mapping[str, Any] | None:
    """Return the tree of a configuration, None if a document is none."""
    if isinstance(document, list):
        trees = [inner(each, "set") for each in document[:16]]
        return next((members(each) for each in reversed(trees) if isinstance(each, dict)), None)
    found = members(document)
    return found if isinstance(found.get("qos"), dict) and "interface" in found else None


def interface_facts(own: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an interface is set to."""
    link = members(own.get("link"))
    state = link.get("oper-status", link.get("state"))
    word = next(iter(state), None) if isinstance(state, dict) else state
    speed = str(link.get("speed", ""))
    return {
        "mtu_bytes": whole(link.get("mtu"), most=65535),
        "speed_gbps": whole(speed[:-1], most=10_000) if speed[-1:] == "G" else None,
        "is_up": {"up": True, "down": False}.get(str(word)),
        "description": words(own.get("description")),
        "neighbour": words(next(iter(members(inner(own, "lldp", "neighbor"))), None)),
    }


def profile_facts(config: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of a port from the mode of RoCE, and from the profiles that it uses.

    None if the port has a mode of its own, or the API's root shows defaults beside a mode.
    """
    qos = members(config.get("qos"))
    mode = _mode(qos.get("roce"))
    chosen = {kind: inner(own, "qos", kind, "profile") for kind in _PARSERS}
    names = {kind: name for kind, name in chosen.items() if isinstance(name, str)}
    is_hidden = members(inner(own, "qos", "roce")) or (mode is not None and _ROOT in config)
    named = {fact: names[kind] for fact, kind in _REMEDIES.items() if kind in names}
    entry = inner(own, "qos", "pfc-watchdog")
    state = inner(entry, "state")
    watchdog = None if state is None else PfcWatchdog(is_on(state))
    facts = {} if is_hidden else _facts(qos, names, mode, is_whole=_ROOT in config)
    return {**facts, "watchdog": watchdog, "named": named}


def _facts(
    qos: Mapping[str, Any], names: Mapping[str, str], mode: object, *, is_whole: bool
) -> dict[str, Any]:
    """Return what a mode sets and profiles change: one that the port names replaces the mode's.

    Lines of `default-global` change entries of a mode's maps; all else they leave open.
    """
    facts = dict(_MODES.get(mode, {})) if isinstance(mode, str) else {}
    for kind, parse in _PARSERS.items():
        profile = members(inner(qos, kind, names.get(kind, _GLOBAL)))
        is_mode = mode is not None and kind not in names
        if is_mode and not profile:
            continue
        found = parse({"trust": "both" if is_mode else "", **profile})
        if kind == "pfc" and not profile and is_whole and kind in qos:
            found = dict.fromkeys(found, frozenset())
        if is_mode:
            found = {key: _changed(key, facts.get(key), each) for key, each in found.items()}
        facts |= found
    return facts


def _changed(key: str, before: object, now: object) -> object:
    """Return a fact of a mode after lines of `default-global`, None if they leave it open."""
    if key in ("dscp_class", "class_queue") and isinstance(before, dict) and isinstance(now, dict):
        return {**before, **now}
    return now if isinstance(now, bool) else None


def _pfc(profile: Mapping[str, Any]) -> dict[str, Any]:
    named = members(profile.get("switch-priority"))
    priorities = numbers(",".join(named)) if named else frozenset()
    states = {key: is_on(profile.get(key[-2:])) for key in ("pfc_rx", "pfc_tx")}
    return {
        key: None if on is None else priorities if on else frozenset() for key, on in states.items()
    }


def _mapping(profile: Mapping[str, Any]) -> dict[str, Any]:
    trust = profile.get("trust")
    if trust not in ("l2", "l3", "both"):
        return {"trusts_dscp": None, "dscp_class": None}
    named = members(profile.get("dscp")).items()
    own = _pairs(((key, inner(each, "switch-priority")) for key, each in named), 63)
    # By default eight DSCPs share a switch priority, as `nv show qos roce` shows them.
    found = None if own is None else {dscp: dscp >> 3 for dscp in range(64)} | own
    return {"trusts_dscp": trust != "l2", "dscp_class": found}


def _queues(profile: Mapping[str, Any]) -> dict[int, int] | None:
    named = members(profile.get("switch-priority")).items()
    return _pairs((key, inner(each, "traffic-class")) for key, each in named) or None


def _ecn(profile: Mapping[str, Any]) -> dict[int, EcnCurve] | None:
    found = {}
    for key, each in members(profile.get("traffic-class")).items():
        queue, on = whole(key, 0, 7), is_on(inner(each, "ecn"))
        if queue is None or on is None:
            return None
        found[queue] = EcnCurve(
            on,
            size_bytes(inner(each, "min-threshold")),
            size_bytes(inner(each, "max-threshold")),
            percent=whole(inner(each, "probability"), 0, 100),
        )
    return found or None


def _shares(profile: Mapping[str, Any]) -> dict[int, QueueShare] | None:
    found = {}
    for key, each in members(profile.get("traffic-class")).items():
        queue, mode = whole(key, 0, 7), inner(each, "mode")
        if queue is not None and mode in ("dwrr", "strict"):
            found[queue] = QueueShare(mode == "strict", whole(inner(each, "bw-percent"), 0, 100))
    return found or None


_PARSERS: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "pfc": _pfc,
    "mapping": _mapping,
    "egress-queue-mapping": lambda profile: {"class_queue": _queues(profile)},
    "congestion-control": lambda profile: {"ecn": _ecn(profile)},
    "egress-scheduler": lambda profile: {"shares": _shares(profile)},
}


_YES = {"enabled", "enable", "yes", "on", "true"}
_NO = {"disabled", "disable", "no", "off", "false"}
_SHARE = re.compile(r"dwrr-([0-9]{1,3})%")


def roce_facts(view: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of a port; None for what the view lacks."""
    priorities = numbers(inner(view, "pfc", "pfc-priority"))
    return {
        "pfc_rx": _enabled(priorities, inner(view, "pfc", "rx-enabled")),
        "pfc_tx": _enabled(priorities, inner(view, "pfc", "tx-enabled")),
        "trusts_dscp": _trusts_dscp(inner(view, "trust", "trust-mode")),
        "dscp_class": _dscp_map(view),
        "class_queue": _pairs(
            (row.get("switch-prio"), row.get("traffic-class")) for row in _rows(view, "tc-map")
        )
        or None,
        "ecn": _roce_ecn(members(view.get("congestion-control"))),
        "shares": _roce_shares(view),
        **_pools(view),
    }


def is_on(value: object) -> bool | None:
    """Return whether a switch is on, None if it is neither on nor off."""
    text = str(value).lower()
    return True if text in _YES else False if text in _NO else None


def _enabled(priorities: frozenset[int] | None, state: object) -> frozenset[int] | None:
    if priorities is None or not priorities:
        return priorities
    on = is_on(state)
    return None if on is None else priorities if on else frozenset()


def _trusts_dscp(mode: object) -> bool | None:
    if not isinstance(mode, str) or not mode:
        return None
    return bool({"dscp", "l3", "both"} & set(re.split(r"[, ]+", mode.lower())))


def _rows(view: Mapping[str, Any], name: str) -> Iterator[Mapping[str, Any]]:
    yield from (members(each) for each in members(view.get(name)).values())


def _dscp_map(view: Mapping[str, Any]) -> dict[int, int] | None:
    found: dict[int, int] = {}
    for row in _rows(view, "prio-map"):
        values, to = numbers(row.get("dscp"), 63), whole(row.get("switch-prio"), 0, 7)
        if values is None or to is None:
            return None  # a map that is read in part could hide what it says of a DSCP
        found.update(dict.fromkeys(values, to))
    return found or None


def _pairs(pairs: Iterable[tuple[object, object]], most: int = 7) -> dict[int, int] | None:
    """Return numbers up to `most` to those up to 7, None if one is not allowed."""
    found: dict[int, int] = {}
    for key, value in pairs:
        left, right = whole(key, 0, most), whole(value, 0, 7)
        if left is None or right is None:
            return None
        found[left] = right
    return found


def _roce_ecn(view: Mapping[str, Any]) -> dict[int, EcnCurve] | None:
    classes, mode = numbers(view.get("enabled-tc")), view.get("congestion-mode")
    if classes is None or not isinstance(mode, str):
        return None
    curve = EcnCurve(
        "ecn" in mode.lower(),
        size_bytes(view.get("min-threshold")),
        size_bytes(view.get("max-threshold")),
        percent=whole(view.get("probability"), 0, 100),
    )
    return dict.fromkeys(classes, curve)


def _roce_shares(view: Mapping[str, Any]) -> dict[int, QueueShare] | None:
    found = {}
    for row in _rows(view, "tc-map"):
        queue = whole(row.get("traffic-class"), 0, 7)
        text = str(row.get("scheduler-weight")).lower()
        weight = _SHARE.fullmatch(text)
        if queue is not None and (weight or "strict" in text):
            found[queue] = QueueShare(weight is None, int(weight[1]) if weight else None)
    return found or None


def _pools(view: Mapping[str, Any]) -> dict[str, Any]:
    """Return the switch priorities with an ingress pool of RoCE's own."""
    lossless: set[int] = set()
    for row in _rows(view, "pool-map"):
        name = str(row.get("name"))
        if "roce" in name and "ingress" in name:
            lossless |= numbers(row.get("switch-priorities")) or set()
    if not lossless:
        return {}  # a single pool for all, which says nothing of room for pauses
    same = {number: number for number in range(8)}
    return {"lossless_groups": frozenset(lossless), "class_group": same}
