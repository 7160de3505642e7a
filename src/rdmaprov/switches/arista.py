"""Arista EOS: its running configuration, and `show interfaces` as JSON.

The commands: Arista's EOS User Manual, "Quality of Service" and "Priority Flow Control"; how they
are written in a configuration: aristanetworks/avd. `show running-config` leaves out what is at its
default, so what a shorter one does not write is not known; `show running-config all` writes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rdmaprov.switches.eos_config import EosSection, config_of, is_config
from rdmaprov.switches.model import (
    EcnCurve,
    PfcWatchdog,
    QueueShare,
    SwitchFact,
    SwitchReading,
    SwitchSystem,
)
from rdmaprov.switches.reader import ReadingDraft, SwitchAsk, SwitchReader
from rdmaprov.switches.saved import SavedAnswer
from rdmaprov.switches.shapes import MOST_PORTS, inner, members, numbers, whole, words

_CURVE = re.compile(
    r"minimum-threshold (\d{1,9})(?: (\w+))? maximum-threshold (\d{1,9})(?: (\w+))?"
    r"(?: max-mark-probability (\d{1,3}))?\b.*",
    re.ASCII,
)
_QUEUE = re.compile(r"(?:uc-)?tx-queue ([0-9]{1,2})")
_PRIORITY = re.compile(r"([0-7]) (no-drop|drop)")
_RATE = re.compile(r"(?:forced )?([0-9]{1,4})g")
_NOT_CONFIGURED = (SwitchFact.BUFFERS, SwitchFact.DROPS)
_WATCHDOG = "priority-flow-control pause watchdog"


def _is_interfaces(document: object) -> bool:
    return any(
        "lineProtocolStatus" in members(each)
        for each in members(inner(document, "interfaces")).values()
    )


def _is_storms(document: object) -> bool:
    return any(
        isinstance(inner(each, "txQueues"), dict)
        for each in members(inner(document, "interfaces")).values()
    )


def _neighbours(document: object) -> list[object]:
    found = inner(document, "lldpNeighbors")
    return found[:MOST_PORTS] if isinstance(found, list) else []


def _is_empty_storms(answer: SavedAnswer) -> bool:
    return "counters watchdog" in answer.command and inner(answer.document, "interfaces") == {}


def _knows(answer: SavedAnswer) -> bool:
    document = answer.document
    return (
        is_config(answer)
        or _is_interfaces(document)
        or _is_storms(document)
        or isinstance(inner(document, "lldpNeighbors"), list)
        or _is_empty_storms(answer)
    )


def _read(name: str, answers: Sequence[SavedAnswer]) -> SwitchReading:
    draft = ReadingDraft(name, SwitchSystem.ARISTA)
    for answer in answers:
        if is_config(answer):
            if answer.document is None and answer.text.split()[-1:] != ["end"]:
                draft.not_read.append(f"{answer.label} is cut: it has no `end`")
            _read_config(config_of(answer), answer, draft)
    for answer in answers:
        if _is_interfaces(answer.document):
            _read_interfaces(answer, draft)
    for answer in answers:
        for each in _neighbours(answer.document):
            if inner(each, "port") in draft.ports:
                neighbour = words(inner(each, "neighborDevice"))
                draft.ports.add(inner(each, "port"), neighbour=neighbour)
    for answer in answers:
        if _is_storms(answer.document) or _is_empty_storms(answer):
            _read_storms(answer, draft)
    return draft.finish()


def _read_config(config: EosSection, answer: SavedAnswer, draft: ReadingDraft) -> None:
    draft.name = words(config.last("hostname ")) or draft.name
    maps = {
        "dscp_class": _map(config, "qos map dscp ", 63) or None,
        "class_queue": _queue_map(config),
    }
    profiles = dict(config.under("qos profile "))
    common = _common_watchdog(config)
    for port, own in config.under("interface "):
        if not port.startswith("Ethernet"):
            continue
        name = own.last("service-profile ")
        sections = [profiles[name]] if name in profiles else []
        draft.ports.add(port, **maps, **_facts([*sections, own], own, common))
    for fact in SwitchFact:
        if fact not in _NOT_CONFIGURED:
            draft.where[fact] = answer.command or "show running-config"


def _facts(sections: list[EosSection], own: EosSection, common: PfcWatchdog) -> dict[str, Any]:
    """Return the facts of a port: of its profile, then of the port itself, which wins."""
    speed = _RATE.match(own.last("speed ") or "")
    paused = _paused(sections)
    return {
        "description": words(own.last("description ")),
        "is_up": False if own.has("shutdown") else None,
        "speed_gbps": int(speed[1]) if speed else None,
        "mtu_bytes": whole(own.last("mtu "), most=65535),
        "pfc_rx": paused,
        "pfc_tx": paused,
        "trusts_dscp": _trusts_dscp(sections),
        "ecn": _curves(sections),
        "shares": _shares(sections),
        "watchdog": _watchdog(sections, common),
    }


def _paused(sections: list[EosSection]) -> frozenset[int]:
    """Return the priorities with PFC, which is off by default."""
    is_on, found = False, set[int]()
    for section in sections:
        for line in section.lines:
            if line in ("priority-flow-control on", "no priority-flow-control"):
                is_on = line.endswith(" on")
        for rest, _ in section.under("priority-flow-control priority "):
            priority = _PRIORITY.fullmatch(rest)
            if priority is not None:
                number = int(priority[1])
                found = found | {number} if priority[2] == "no-drop" else found - {number}
    return frozenset(found) if is_on else frozenset()


def _trusts_dscp(sections: list[EosSection]) -> bool | None:
    trusts = [rest for section in sections for rest, _ in section.under("qos trust ")]
    return None if not trusts else trusts[-1] == "dscp"


def _queues(sections: list[EosSection]) -> Iterator[tuple[int, EosSection]]:
    for section in sections:
        for line, inside in section.lines.items():
            found = _QUEUE.fullmatch(line)
            if found is not None:
                yield int(found[1]), inside


def _curves(sections: list[EosSection]) -> dict[int, EcnCurve]:
    """Return the queues that mark, which none does by default."""
    found = {}
    for queue, inside in _queues(sections):
        for rest, _ in inside.under("random-detect ecn "):
            curve = _CURVE.fullmatch(rest)
            if curve is not None:
                unit, percent = curve[4] or curve[2] or "bytes", whole(curve[5], 0, 100)
                found[queue] = EcnCurve(True, int(curve[1]), int(curve[3]), unit, percent)
        if inside.has("no random-detect ecn"):
            found[queue] = EcnCurve(is_on=False)
    return found


def _shares(sections: list[EosSection]) -> dict[int, QueueShare] | None:
    found = {}
    for queue, inside in _queues(sections):
        percent = whole(inside.last("bandwidth percent "), 0, 100)
        if inside.has("priority strict") or percent is not None:
            found[queue] = QueueShare(inside.has("priority strict"), percent)
    return found or None


def _common_watchdog(config: EosSection) -> PfcWatchdog:
    """Return the watchdog of all ports: it is on once it has a timeout."""
    action = config.last(f"{_WATCHDOG} action ") or ""
    return PfcWatchdog(config.last(f"{_WATCHDOG} default timeout ") is not None, action)


def _watchdog(sections: list[EosSection], common: PfcWatchdog) -> PfcWatchdog:
    """Return whether the watchdog is on, for the port or for all."""
    is_on, action = common.is_on, common.action
    for section in sections:
        is_on = is_on or section.has(_WATCHDOG)
        action = section.last(f"{_WATCHDOG} port action ") or action
    return PfcWatchdog(is_on, action)


def _map(config: EosSection, start: str, most: int) -> dict[int, int]:
    """Return a map such as `qos map dscp 24 26 to traffic-class 3`; the last line wins."""
    found: dict[int, int] = {}
    for rest, _ in config.under(start):
        left, _, right = rest.partition(" to ")
        values, to = numbers(left, most), whole(right.split()[-1] if right else "", 0, 63)
        if values is not None and to is not None:
            found.update(dict.fromkeys(values, to))
    return found


def _queue_map(config: EosSection) -> dict[int, int]:
    """Return the queue of each class: that of its number, unless a line says otherwise."""
    found = {number: number for number in range(8)}
    for rest, _ in config.under("qos map traffic-class "):
        left, _, right = rest.partition(" to ")
        queue = _QUEUE.fullmatch(right)
        values = numbers(left, 7)
        if queue is not None and values is not None:
            found.update(dict.fromkeys(values, int(queue[1])))
    return found


def _read_interfaces(answer: SavedAnswer, draft: ReadingDraft) -> None:
    for port, own in members(inner(answer.document, "interfaces")).items():
        if not port.startswith("Ethernet"):
            continue
        rate = whole(inner(own, "bandwidth"), most=10**14)
        counters = members(inner(own, "interfaceCounters"))
        draft.ports.add(
            port,
            description=words(inner(own, "description")) or None,
            is_up=inner(own, "lineProtocolStatus") == "up",
            speed_gbps=rate // 10**9 if rate else None,
            mtu_bytes=whole(inner(own, "mtu"), most=65535),
            drops=_drops(counters),
        )
    command = answer.command or "show interfaces | json"
    draft.where |= dict.fromkeys((SwitchFact.MTU, SwitchFact.DROPS), command)


def _drops(counters: Mapping[str, Any]) -> dict[str, int] | None:
    found = {"rx": whole(counters.get("inDiscards")), "tx": whole(counters.get("outDiscards"))}
    return {name: count for name, count in found.items() if count is not None} or None


def _read_storms(answer: SavedAnswer, draft: ReadingDraft) -> None:
    """Add the storms; EOS leaves out the ports without any."""
    found = members(inner(answer.document, "interfaces"))
    for port in [each for each in draft.ports if each.watchdog is not None]:
        queues = members(inner(found.get(port.name), "txQueues")).values()
        counts = [whole(inner(queue, "stuckCount")) or 0 for queue in queues]
        before = port.watchdog or PfcWatchdog(None)
        draft.ports.add(port.name, watchdog=PfcWatchdog(before.is_on, before.action, sum(counts)))


READER = SwitchReader(
    SwitchSystem.ARISTA,
    "arista",
    (
        SwitchAsk(
            "show running-config all",
            "PFC, trust, maps, ECN, MTU, shares, watchdog",
            tuple(fact for fact in SwitchFact if fact not in _NOT_CONFIGURED),
        ),
        SwitchAsk(
            "show interfaces | json",
            "MTU, rate, link and drops of each port",
            (SwitchFact.MTU, SwitchFact.DROPS),
        ),
        SwitchAsk("show priority-flow-control counters watchdog | json", "storms of pause"),
        SwitchAsk("show lldp neighbors | json", "which node is at a port"),
    ),
    _knows,
    _read,
)
