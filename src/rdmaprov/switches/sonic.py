"""SONiC: its CONFIG_DB as JSON, and its tables of counters.

The tables and their fields: sonic-net/sonic-buildimage,
src/sonic-yang-models/doc/Configuration.md. References to a table's entry are its name, or
`[TABLE|name]` up to release 202012.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rdmaprov.switches.model import (
    EcnCurve,
    PfcWatchdog,
    QueueShare,
    SwitchFact,
    SwitchPort,
    SwitchReading,
    SwitchSystem,
)
from rdmaprov.switches.reader import ReadingDraft, SwitchAsk, SwitchReader
from rdmaprov.switches.saved import SavedAnswer
from rdmaprov.switches.shapes import inner, members, number_map, numbers, whole, words
from rdmaprov.switches.tables import TextTable, text_tables

_KNOWN = {"PORT", "PORT_QOS_MAP", "DEVICE_METADATA", "WRED_PROFILE", "DSCP_TO_TC_MAP"}
_MAPS = {
    "dscp_class": ("dscp_to_tc_map", "DSCP_TO_TC_MAP", 63),
    "class_queue": ("tc_to_queue_map", "TC_TO_QUEUE_MAP", 7),
    "class_group": ("tc_to_pg_map", "TC_TO_PRIORITY_GROUP_MAP", 7),
    "priority_queue": ("pfc_to_queue_map", "MAP_PFC_PRIORITY_TO_QUEUE", 7),
}
# Traffic that no rule colours is green, so a profile that marks other colours alone marks nothing.
_MARKS_GREEN = {"ecn_all", "ecn_green", "ecn_green_yellow", "ecn_green_red"}
_ALL = frozenset(range(8))
_Entry = tuple[str, Mapping[str, Any]]


def _is_config(document: object) -> bool:
    found = members(document)
    return any(isinstance(found.get(name), dict) for name in _KNOWN)


def _knows(answer: SavedAnswer) -> bool:
    return _is_config(answer.document) or is_counters(answer.text)


def _read(name: str, answers: Sequence[SavedAnswer]) -> SwitchReading:
    draft = ReadingDraft(name, SwitchSystem.SONIC)
    for answer in answers:
        if _is_config(answer.document):
            _Config(members(answer.document), draft).read()
    for answer in answers:
        if answer.document is None:
            read_counters(answer, draft)
    return draft.finish()


class _Config:
    """CONFIG_DB. Where it has the ports, what it lacks of them is off; a part of it says less."""

    def __init__(self, document: Mapping[str, Any], draft: ReadingDraft) -> None:
        self._document, self._draft = document, draft
        self._tables: dict[str, Mapping[str, Any]] = {}
        self._kept: dict[str, dict[str, list[_Entry]]] = {}
        self._is_whole = isinstance(document.get("PORT"), dict)

    def read(self) -> None:
        hostname = words(inner(self._document, "DEVICE_METADATA", "localhost", "hostname"))
        self._draft.name = hostname or self._draft.name
        for name, table in self._document.items():
            is_table = isinstance(table, dict) and all(isinstance(e, dict) for e in table.values())
            if name.isupper() and not is_table:
                self._draft.not_read.append(f"CONFIG_DB {name[:40]} is no table")
        bound = self._table("PORT_QOS_MAP")
        for port in self._table("PORT") or [each for each in bound if each != "global"]:
            self._read_port(port)
        self._tell_where()

    def _table(self, name: str) -> Mapping[str, Any]:
        if name not in self._tables:
            self._tables[name] = members(self._document.get(name))
        return self._tables[name]

    def _has(self, name: str) -> bool:
        """Return whether a table that is missing means that nothing of it is set."""
        return self._is_whole or isinstance(self._document.get(name), dict)

    def _read_port(self, port: str) -> None:
        own = members(self._table("PORT").get(port))
        speed = whole(own.get("speed"), most=10_000_000)
        status = own.get("admin_status")
        self._draft.ports.add(
            port,
            description=words(own.get("description")),
            neighbour=words(members(self._table("DEVICE_NEIGHBOR").get(port)).get("name")),
            is_up=None if status is None else status == "up",
            speed_gbps=None if speed is None else speed // 1000,
            mtu_bytes=whole(own.get("mtu"), most=65535),
            ecn=self._ecn(port),
            shares=self._shares(port),
            watchdog=self._watchdog(port),
            **self._priorities(port, own),
            **self._maps(port),
            **self._buffers(port),
        )

    def _priorities(self, port: str, own: Mapping[str, Any]) -> dict[str, Any]:
        if not self._has("PORT_QOS_MAP"):
            return {}
        enabled = numbers(members(self._table("PORT_QOS_MAP").get(port)).get("pfc_enable") or "")
        is_asymmetric = own.get("pfc_asym") == "on"  # then it receives on all, sends on these
        received = _ALL if enabled is not None and is_asymmetric else enabled
        return {"pfc_tx": enabled, "pfc_rx": received}

    def _maps(self, port: str) -> dict[str, Any]:
        if not self._has("PORT_QOS_MAP"):
            return {}
        table = self._table("PORT_QOS_MAP")
        # `global` binds the map of DSCP to all ports of the switch.
        bound = {**members(table.get("global")), **members(table.get(port))}
        found: dict[str, Any] = {
            key: number_map(self._table(name).get(_named(bound.get(of))), most)
            for key, (of, name, most) in _MAPS.items()
        }
        named = {
            SwitchFact.DSCP_MAP: _named(bound.get("dscp_to_tc_map")),
            SwitchFact.TRUST: self._only("DSCP_TO_TC_MAP"),
            SwitchFact.ECN: self._ecn_remedy(port),
        }
        return {**found, "trusts_dscp": "dscp_to_tc_map" in bound, "named": named}

    def _only(self, table: str) -> str:
        """Return the name of the only entry of a table, empty if it has none or several."""
        names = list(self._table(table))
        return names[0] if len(names) == 1 else ""

    def _ecn_remedy(self, port: str) -> str:
        """Return what turns ECN on: the profile that marks, or marking of the only profile."""
        used = [entry.get("wred_profile") for _, entry in self._of_port("QUEUE", port)]
        bound = {each for each in used if isinstance(each, str)}
        known = bound or {self._only("WRED_PROFILE")} - {""}
        table = self._table("WRED_PROFILE")
        marking = {e for e in known if inner(table, _named(e), "ecn") in tuple(_MARKS_GREEN)}
        if len(marking) == 1:
            return f"'QUEUE|PORT|{{queue}}' wred_profile '{marking.pop()}'"
        return f"'WRED_PROFILE|{_named(bound.pop())}' ecn ecn_all" if len(bound) == 1 else ""

    def _ecn(self, port: str) -> dict[int, EcnCurve] | None:
        if not self._has("QUEUE"):
            return None
        found = {}
        for queues, entry in self._of_port("QUEUE", port):
            profile = members(self._table("WRED_PROFILE").get(_named(entry.get("wred_profile"))))
            marks = words(profile.get("ecn", ""))
            if marks is None:
                self._draft.not_read.append(
                    f"CONFIG_DB QUEUE {port[:40]}: a profile's ecn is no text"
                )
                continue
            curve = EcnCurve(
                marks in _MARKS_GREEN,
                whole(profile.get("green_min_threshold")),
                whole(profile.get("green_max_threshold")),
                percent=whole(profile.get("green_drop_probability"), most=100),
            )
            found.update(dict.fromkeys(queues, curve) if profile else {})
        return found

    def _shares(self, port: str) -> dict[int, QueueShare] | None:
        found = {}
        for queues, entry in self._of_port("QUEUE", port):
            scheduler = members(self._table("SCHEDULER").get(_named(entry.get("scheduler"))))
            weight = whole(scheduler.get("weight"), most=100)
            if scheduler:
                share = QueueShare(scheduler.get("type") == "STRICT", weight)
                found.update(dict.fromkeys(queues, share))
        return found or None

    def _buffers(self, port: str) -> dict[str, Any]:
        if not isinstance(self._document.get("BUFFER_PG"), dict):
            return {}  # the dynamic model of buffers does not have to write it
        lossless: set[int] = set()
        pauses_at = {}
        for groups, entry in self._of_port("BUFFER_PG", port):
            name = _named(entry.get("profile"))
            profile = members(self._table("BUFFER_PROFILE").get(name))
            # NULL is a profile that SONiC computes, of the lossless kind alone.
            if name == "NULL" or "xoff" in profile or (not profile and "lossless" in name):
                lossless |= groups
            fixed = whole(profile.get("static_th"))
            if fixed is not None:
                pauses_at.update(dict.fromkeys(groups, fixed))
        return {"lossless_groups": frozenset(lossless), "xoff_bytes": pauses_at}

    def _watchdog(self, port: str) -> PfcWatchdog | None:
        if not self._has("PFC_WD"):
            return None
        entry = members(self._table("PFC_WD").get(port))
        return PfcWatchdog("detection_time" in entry, words(entry.get("action")) or "")

    def _of_port(self, table: str, port: str) -> list[tuple[frozenset[int], Mapping[str, Any]]]:
        """Return what a table of ports and numbers has of a port: `Ethernet0|3-4`.

        Virtual output queues of a chassis have the switch and the ASIC before the port.
        """
        found = []
        for key, entry in self._entries(table).get(port, []):
            each = numbers(key, most=63)
            if each is not None:
                found.append((each, entry))
        return found

    def _entries(self, table: str) -> dict[str, list[_Entry]]:
        if table not in self._kept:
            by_port: dict[str, list[_Entry]] = {}
            for key, entry in self._table(table).items():
                ports, _, last = key.rpartition("|")
                for port in ports.rpartition("|")[2].split(","):
                    by_port.setdefault(port, []).append((last, members(entry)))
            self._kept[table] = by_port
        return self._kept[table]

    def _tell_where(self) -> None:
        self._draft.where |= {
            SwitchFact.PFC: "CONFIG_DB PORT_QOS_MAP",
            SwitchFact.TRUST: "CONFIG_DB PORT_QOS_MAP",
            SwitchFact.DSCP_MAP: "CONFIG_DB DSCP_TO_TC_MAP, TC_TO_QUEUE_MAP",
            SwitchFact.ECN: "CONFIG_DB QUEUE, WRED_PROFILE",
            SwitchFact.MTU: "CONFIG_DB PORT",
            SwitchFact.BUFFERS: "CONFIG_DB BUFFER_PG, BUFFER_PROFILE",
            SwitchFact.WEIGHTS: "CONFIG_DB QUEUE, SCHEDULER",
            SwitchFact.WATCHDOG: "CONFIG_DB PFC_WD",
        }


def _named(value: object) -> str:
    """Return the entry that a reference names.

    >>> _named("AZURE"), _named("[DSCP_TO_TC_MAP|AZURE]"), _named(3)
    ('AZURE', 'AZURE', '')
    """
    return value.strip("[]").rpartition("|")[2] if isinstance(value, str) else ""


READER = SwitchReader(
    SwitchSystem.SONIC,
    (
        SwitchAsk(
            "sonic-cfggen -d --print-data",
            "CONFIG_DB: PFC, maps, ECN, buffers, MTU, watchdog",
            tuple(fact for fact in SwitchFact if fact is not SwitchFact.DROPS),
        ),
        SwitchAsk("show pfc counters", "pause frames"),
        SwitchAsk("show queue counters", "drops by queue", (SwitchFact.DROPS,)),
        SwitchAsk("show pfcwd stats", "storms of pause"),
        SwitchAsk("show lldp table", "which node is at a port"),
    ),
    _knows,
    _read,
)


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
