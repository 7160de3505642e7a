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
    tables = text_tables(text[: 1 << 16])
    return any(head in table.columns for table in tables for head in _READERS)


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


def _read_storms(table: TextTable, answer: SavedAnswer, draft: ReadingDraft) -> None:
    """Add the storms; a queue is `stormed` until its storm ends, older releases have no STATUS."""
    known: dict[str, SwitchPort] = {port.name: port for port in draft.ports}
    storms: dict[str, int] = {}
    stormed: dict[str, tuple[int, ...]] = {}
    for row in table.records():
        port, _, number = row.get("QUEUE", "").partition(":")
        detected, restored = (whole(each) for each in row[_STORMS].partition("/")[::2])
        if detected is None:
            continue
        storms[port] = storms.get(port, 0) + detected
        status, queue = row.get("STATUS", "N/A"), whole(number, 0, 63)
        lasts = status == "N/A" and restored is not None and detected > restored
        if queue is not None and (status == "stormed" or lasts):
            stormed[port] = (*stormed.get(port, ()), queue)
    for port, count in storms.items():
        before = (known.get(port) or SwitchPort(port)).watchdog or PfcWatchdog(is_on=True)
        now = replace(before, storms=count, stormed=stormed.get(port, ()))
        draft.ports.add(port, watchdog=now)
    read = (draft.where.get(SwitchFact.WATCHDOG), answer.command or "show pfcwd stats")
    draft.where[SwitchFact.WATCHDOG] = ", ".join(filter(None, read))


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
