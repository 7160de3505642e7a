"""Arista EOS: its running configuration, and `show interfaces` as JSON.

`show running-config` leaves out what is at its default, so what a shorter one does not write is not
known; `show running-config all` writes it.
"""

import re
from collections.abc import Sequence

from rdmaprov.switches.eos_port import CommonSettings, EosSection, config_of, is_config, port_facts
from rdmaprov.switches.model import PfcWatchdog, SwitchFact, SwitchReading, SwitchSystem
from rdmaprov.switches.reader import ReadingDraft, SwitchAsk, SwitchReader
from rdmaprov.switches.saved import SavedAnswer
from rdmaprov.switches.shapes import MOST_PORTS, counts, inner, members, whole, words

_HEAD = re.compile(r"^! Command: (show running-config[\w -]{0,80})$", re.MULTILINE)
_NOT_CONFIGURED = (SwitchFact.BUFFERS, SwitchFact.DROPS)


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
    common = CommonSettings.of(config)
    head = _HEAD.search(answer.text[:4096])  # what EOS itself says, before a file's name
    command = head[1] if head else answer.command or "show running-config"
    for port, own in config.under("interface "):
        if port.startswith("Ethernet"):
            draft.ports.add(port, **port_facts(own, common))
    for fact in SwitchFact:
        if fact not in _NOT_CONFIGURED:
            draft.where[fact] = command


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
            drops=counts({"rx": counters.get("inDiscards"), "tx": counters.get("outDiscards")}),
        )
    command = answer.command or "show interfaces | json"
    draft.where |= dict.fromkeys((SwitchFact.MTU, SwitchFact.DROPS), command)


def _read_storms(answer: SavedAnswer, draft: ReadingDraft) -> None:
    """Add the storms; EOS leaves out the ports without any."""
    found = members(inner(answer.document, "interfaces"))
    for port in [each for each in draft.ports if each.watchdog is not None]:
        queues = members(inner(found.get(port.name), "txQueues")).values()
        stuck = [whole(inner(queue, "stuckCount")) or 0 for queue in queues]
        before = port.watchdog or PfcWatchdog(None)
        draft.ports.add(port.name, watchdog=PfcWatchdog(before.is_on, before.action, sum(stuck)))


READER = SwitchReader(
    SwitchSystem.ARISTA,
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
