"""What NVUE has configured: `nv config show -o json`, or the root of its API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rdmaprov.switches.cumulus_roce import is_on
from rdmaprov.switches.model import EcnCurve, PfcWatchdog, QueueShare
from rdmaprov.switches.shapes import inner, members, numbers, size_bytes, whole, words

_ROOT = "header"  # a key of the API's root, which has defaults, too
_GLOBAL = "default-global"


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
    """Return the facts of a port from the profiles that it uses.

    RoCE's own mode sets all of this without writing it, so a configuration with that mode says
    nothing of it.
    """
    qos = members(config.get("qos"))
    if not qos or is_on(inner(qos, "roce", "enable")) or "mode" in members(qos.get("roce")):
        return {}

    def profile(kind: str) -> Mapping[str, Any]:
        name = inner(own, "qos", kind, "profile")
        return members(inner(qos, kind, name if isinstance(name, str) else _GLOBAL))

    is_whole = _ROOT in config
    return {
        **_pfc(profile("pfc"), is_whole and "pfc" in qos),
        **_mapping(profile("mapping")),
        "class_queue": _queues(profile("egress-queue-mapping")),
        "ecn": _ecn(profile("congestion-control")),
        "shares": _shares(profile("egress-scheduler")),
        "watchdog": _watchdog(inner(own, "qos", "pfc-watchdog")),
    }


def _pfc(profile: Mapping[str, Any], is_known: bool) -> dict[str, Any]:
    if not profile:
        return dict.fromkeys(("pfc_rx", "pfc_tx"), frozenset()) if is_known else {}
    named = members(profile.get("switch-priority"))
    priorities = numbers(",".join(named)) if named else frozenset()
    states = {key: is_on(profile.get(key[-2:])) for key in ("pfc_rx", "pfc_tx")}
    return {
        key: None if on is None else priorities if on else frozenset() for key, on in states.items()
    }


def _mapping(profile: Mapping[str, Any]) -> dict[str, Any]:
    trust = profile.get("trust")
    if trust not in ("l2", "l3", "both"):
        return {}
    # By default eight DSCPs share a switch priority, as `nv show qos roce` shows them.
    found = {dscp: dscp >> 3 for dscp in range(64)}
    for key, each in members(profile.get("dscp")).items():
        dscp, to = whole(key, 0, 63), whole(inner(each, "switch-priority"), 0, 7)
        if dscp is None or to is None:
            return {"trusts_dscp": trust != "l2"}
        found[dscp] = to
    return {"trusts_dscp": trust != "l2", "dscp_class": found}


def _queues(profile: Mapping[str, Any]) -> dict[int, int] | None:
    found = {}
    for key, each in members(profile.get("switch-priority")).items():
        left, right = whole(key, 0, 7), whole(inner(each, "traffic-class"), 0, 7)
        if left is None or right is None:
            return None
        found[left] = right
    return found or None


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


def _watchdog(entry: object) -> PfcWatchdog | None:
    state = inner(entry, "state")
    return None if state is None else PfcWatchdog(is_on(state))
