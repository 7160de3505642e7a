"""SONiC's tables: pause frames, drops by queue, storms of pause, neighbours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rdmaprov.switches.model import PfcWatchdog, SwitchFact, SwitchPort
from rdmaprov.switches.reader import ReadingDraft
from rdmaprov.switches.saved import SavedAnswer
from rdmaprov.switches.shapes import whole, words
from rdmaprov.switches.tables import TextTable, text_tables

_PAUSES = {"Port Rx": "pauses_rx", "Port Tx": "pauses_tx"}
_STORMS = "STORM DETECTED/RESTORED"
_DROPS = "Drop/pkts"
_NEIGHBOUR = "RemoteDevice"


def is_counters(text: str) -> bool:
    """Return whether a text has one of the tables."""
    head = text[:4096]
    return any(word in head for word in (*_PAUSES, _STORMS, f"{_DROPS} ", _NEIGHBOUR))


def read_counters(answer: SavedAnswer, draft: ReadingDraft) -> None:
    """Add what the tables of an answer say."""
    for table in text_tables(answer.text):
        for head, read in _READERS.items():
            if head in table.columns:
                read(table, answer, draft)


def _read_pauses(table: TextTable, _answer: SavedAnswer, draft: ReadingDraft) -> None:
    head = next(each for each in table.columns if each in _PAUSES)
    for row in table.records():
        counted = {
            number: frames
            for number in range(8)
            if (frames := whole(row.get(f"PFC{number}"))) is not None
        }
        draft.ports.add(row[head], **{_PAUSES[head]: counted})


def _read_drops(table: TextTable, answer: SavedAnswer, draft: ReadingDraft) -> None:
    """Add drops of unicast queues: UC3 is queue 3."""
    found: dict[str, dict[str, int]] = {}
    for row in table.records():
        kind, number = row.get("TxQ", "")[:2], whole(row.get("TxQ", "")[2:], 0, 63)
        dropped = whole(row[_DROPS])
        if kind == "UC" and number is not None and dropped is not None:
            found.setdefault(row.get("Port", ""), {})[f"queue {number}"] = dropped
    for port, drops in found.items():
        draft.ports.add(port, drops=drops)
    if found:
        draft.where[SwitchFact.DROPS] = answer.command or "show queue counters"


def _read_storms(table: TextTable, _answer: SavedAnswer, draft: ReadingDraft) -> None:
    known: dict[str, SwitchPort] = {port.name: port for port in draft.ports}
    storms: dict[str, int] = {}
    for row in table.records():
        port = row.get("QUEUE", "").partition(":")[0]
        detected = whole(row[_STORMS].partition("/")[0])
        if detected is not None:
            storms[port] = storms.get(port, 0) + detected
    for port, count in storms.items():
        before = (known.get(port) or SwitchPort(port)).watchdog or PfcWatchdog(is_on=True)
        draft.ports.add(port, watchdog=replace(before, storms=count))


def _read_neighbours(table: TextTable, _answer: SavedAnswer, draft: ReadingDraft) -> None:
    for row in table.records():
        if row.get("LocalPort") in draft.ports:
            draft.ports.add(row["LocalPort"], neighbour=words(row[_NEIGHBOUR]))


_READERS: dict[str, Callable[[TextTable, SavedAnswer, ReadingDraft], None]] = {
    **dict.fromkeys(_PAUSES, _read_pauses),
    _DROPS: _read_drops,
    _STORMS: _read_storms,
    _NEIGHBOUR: _read_neighbours,
}
