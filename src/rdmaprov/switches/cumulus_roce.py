"""What Cumulus Linux says of RoCE, of the whole switch or of a port."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from rdmaprov.switches.model import EcnCurve, QueueShare
from rdmaprov.switches.shapes import inner, members, numbers, size_bytes, whole

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
        "class_queue": _pairs(view, "tc-map", "switch-prio", "traffic-class"),
        "ecn": _ecn(members(view.get("congestion-control"))),
        "shares": _shares(view),
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


def _pairs(view: Mapping[str, Any], name: str, key: str, to: str) -> dict[int, int] | None:
    found: dict[int, int] = {}
    for row in _rows(view, name):
        left, right = whole(row.get(key), 0, 7), whole(row.get(to), 0, 7)
        if left is None or right is None:
            return None
        found[left] = right
    return found or None


def _ecn(view: Mapping[str, Any]) -> dict[int, EcnCurve] | None:
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


def _shares(view: Mapping[str, Any]) -> dict[int, QueueShare] | None:
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
