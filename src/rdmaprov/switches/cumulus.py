"""Cumulus Linux: what `nv show` prints, as JSON or as text.

Texts and keys: NVIDIA's Cumulus Linux documentation, "RDMA over Converged Ethernet - RoCE" and
"Quality of Service"; the JSON has the keys that the text shows.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rdmaprov.switches.cumulus_config import (
    configuration,
    interface_facts,
    profile_facts,
    roce_facts,
)
from rdmaprov.switches.model import PfcWatchdog, SwitchFact, SwitchReading, SwitchSystem
from rdmaprov.switches.reader import ReadingDraft, SwitchAsk, SwitchReader
from rdmaprov.switches.saved import SavedAnswer
from rdmaprov.switches.shapes import PORT, counts, inner, members, words
from rdmaprov.switches.tables import TextTable, text_tables

# What is said of the whole switch, if no answer names a port.
ALL_PORTS = "all-ports"
_OF_PORT = re.compile(
    r"nv show interface (?P<port>\S+) qos (?P<what>roce status|roce counters|roce|pfc-watchdog)\b"
)
_ROCE_KEYS = {"congestion-control", "trust", "mode", "lldp-app-tlv", "prio-map", "tc-map"}
_SPLIT = {"2x", "4x", "8x"}  # such a port is none any more: swp1s0 and others are
_ROCE_FACTS = (
    SwitchFact.PFC,
    SwitchFact.TRUST,
    SwitchFact.DSCP_MAP,
    SwitchFact.ECN,
    SwitchFact.WEIGHTS,
    SwitchFact.BUFFERS,
)
_DISCARDS = {
    "rx RoCE": ("rx-stats", "rx-roce-stats", "no-buffer-discard"),
    "tx RoCE": ("tx-stats", "tx-roce-stats", "unicast-no-buffer-discard"),
    "tx CNP": ("tx-stats", "tx-cnp-stats", "unicast-no-buffer-discard"),
}


def _is_roce(view: Mapping[str, Any]) -> bool:
    return len(_ROCE_KEYS & view.keys()) >= 2


def _is_interfaces(view: Mapping[str, Any]) -> bool:
    return any(isinstance(inner(each, "link"), dict) for each in view.values())


def _knows(answer: SavedAnswer) -> bool:
    document = answer.document
    if answer.command.startswith("nv ") or configuration(document) is not None:
        return True
    view = members(document)
    text = answer.text if document is None else ""
    return bool(SET.search(text)) or is_nvue_text(text) or _is_roce(view) or _is_interfaces(view)


def _read(name: str, answers: Sequence[SavedAnswer]) -> SwitchReading:
    draft = ReadingDraft(name, SwitchSystem.CUMULUS)
    found = _Answers(draft)
    for answer in answers:
        found.sort(answer)
    found.apply()
    return draft.finish()


class _Answers:
    """Answers about the whole switch, and about single ports, which say more."""

    def __init__(self, draft: ReadingDraft) -> None:
        self._draft = draft
        self._of_switch: dict[str, Any] = {}
        self._of_port: dict[str, dict[str, Any]] = {}
        self._config: Mapping[str, Any] | None = None

    def sort(self, answer: SavedAnswer) -> None:
        """Take what an answer says."""
        config = configuration(answer.document)
        of_port = _OF_PORT.match(answer.command)
        view = view_of(answer)
        if config is not None:
            self._config = config
        elif answer.document is None and SET.search(answer.text):
            self._config = commands_tree(answer.text)
            if self._config is None:
                other = "has lines that `nv config show -o commands` does not print"
                self._draft.not_read.append(f"{answer.label} {other}")
        elif of_port is not None:
            self._take_port(of_port["port"], of_port["what"], view, answer)
        elif _is_roce(view):
            self._of_switch |= roce_facts(view)
            if has_exceptions(answer):
                text = "lists exceptions: save `nv show interface PORT qos roce status` of these"
                self._draft.not_read.append(f"{answer.label} {text}")
            self._tell(answer.command or "nv show qos roce")
        elif _is_interfaces(view):
            for port, each in view.items():
                self._add(port, interface_facts(members(each)), is_physical=True)
            self._draft.where.setdefault(SwitchFact.MTU, answer.command or "nv show interface")
        else:
            self._draft.not_read.append(f"{answer.label} is not known")

    def _take_port(
        self, port: str, what: str, view: Mapping[str, Any], answer: SavedAnswer
    ) -> None:
        if what == "pfc-watchdog":
            self._add(port, {"watchdog": _watchdog(view)})
            self._draft.where[SwitchFact.WATCHDOG] = answer.command
        elif "rx-stats" in view or "tx-stats" in view:
            self._add(port, _counted(view))
            self._draft.where[SwitchFact.DROPS] = answer.command
        elif _is_roce(view):
            self._add(port, roce_facts(view))
            self._tell(answer.command)
        else:
            self._draft.not_read.append(f"{answer.label} is not known")

    def _add(self, port: str, facts: Mapping[str, Any], *, is_physical: bool = False) -> None:
        if PORT.fullmatch(port) and not (is_physical and not port.startswith("swp")):
            self._of_port.setdefault(port, {}).update(facts)

    def _tell(self, command: str) -> None:
        self._draft.where |= dict.fromkeys(_ROCE_FACTS, command)

    def apply(self) -> None:
        """Give each port what is said of it, else of the switch, else what is configured."""
        config = self._config or {}
        self._draft.name = words(inner(config, "system", "hostname")) or self._draft.name
        ports = members(config.get("interface")).items()
        split = {e for e, own in ports if _SPLIT & members(inner(own, "link", "breakout")).keys()}
        configured = [each for each, _ in ports if each[:3] == "swp" and each not in split]
        for port in list(dict.fromkeys([*configured, *self._of_port])) or [ALL_PORTS]:
            own = members(inner(config, "interface", port))
            layers = (
                profile_facts(config, own),
                interface_facts(own),
                self._of_switch,
                self._of_port.get(port, {}),
            )
            known = {k: v for layer in layers for k, v in layer.items() if v is not None}
            self._draft.ports.add(port, **known)
        for fact in SwitchFact if self._config else ():
            self._draft.where.setdefault(fact, "configuration of NVUE")


def _watchdog(view: Mapping[str, Any]) -> PfcWatchdog:
    state = view.get("state")
    status = members(view.get("status"))
    storms = counts({port: inner(each, "deadlock-count") for port, each in status.items()})
    is_on = {"enabled": True, "enable": True, "disabled": False, "disable": False}.get(str(state))
    return PfcWatchdog(is_on, storms=sum(storms.values()) if storms else None)


def _counted(view: Mapping[str, Any]) -> dict[str, Any]:
    return {"drops": counts({name: inner(view, *path) for name, path in _DISCARDS.items()})}


READER = SwitchReader(
    SwitchSystem.CUMULUS,
    (
        SwitchAsk(
            "nv show qos roce", "PFC, maps, ECN, shares, trust of the whole switch", _ROCE_FACTS
        ),
        SwitchAsk(
            "nv show interface -o json",
            "MTU, rate, link and neighbour of each port",
            (SwitchFact.MTU,),
        ),
        SwitchAsk("nv config show -o commands", "the settings, if none of the above is available"),
        SwitchAsk("nv show interface PORT qos roce status", "the same as set on a port"),
        SwitchAsk("nv show interface PORT qos roce counters", "drops", (SwitchFact.DROPS,)),
        SwitchAsk(
            "nv show interface PORT qos pfc-watchdog",
            "the watchdog, storms of pause",
            (SwitchFact.WATCHDOG,),
        ),
    ),
    _knows,
    _read,
)


# Titles of the tables below the first one, and their keys in the JSON.
_TITLES = {
    "RoCE PCP/DSCP->SP mapping configurations": "prio-map",
    "RoCE SP->TC mapping and ETS configurations": "tc-map",
    "RoCE pool config": "pool-map",
    "RoCE Pool Status": "pool-map",
    "PFC WD Status": "status",
}
_MOST_DEPTH = 8
_MOST_LINES = 200_000
_MOST_NODES = 4096
SET = re.compile(r"^nv set ", re.MULTILINE)
_SPAN = re.compile(r"([a-z]*(?:[0-9]+s)?)([0-9]{1,5})(?:-([0-9]{1,5}))?")
# Words whose next word is their value and no key; the latter below the first word alone.
_VALUES = {"mode", "enable", "state", "trust", "ecn", "mtu", "speed", "description", "hostname"}
_VALUES |= {"profile", "tx", "rx", "min-threshold", "max-threshold", "probability", "bw-percent"}
_VALUE_OF = {("dscp", "switch-priority"), ("switch-priority", "traffic-class")}
_EXCEPTIONS = re.compile(r"^Exception List *\n=+ *\n\s*(\S[^\n]*)", re.MULTILINE)


def is_nvue_text(text: str) -> bool:
    """Return whether a text is a view of `nv show`."""
    head = text[:2048]
    return " operational " in head and " applied" in head


def commands_tree(text: str) -> Mapping[str, Any] | None:
    """Return what `nv set` lines set, in the shape of the JSON; None if one is of another kind.

    An order of commands, such as `nv unset` after `nv set`, is no configuration.
    """
    tree: dict[str, Any] = {}
    for line in filter(str.strip, text.split("\n")[:_MOST_LINES]):
        try:
            words = shlex.split(line, comments=line.startswith("#"))
        except ValueError:
            return None
        if words and (words[:2] != ["nv", "set"] or not _set(tree, words[2:])):
            return None
    return tree


def _set(tree: dict[str, Any], words: Sequence[str]) -> bool:
    """Set the last word under all before it; return whether that was possible."""
    nodes, above = [tree], ("", "")
    for place, word in enumerate(words):
        left = len(words) - place
        if left == 2 and (word in _VALUES or (above[0], word) in _VALUE_OF):
            for node in nodes:
                node[word] = words[-1]
            return True
        names = _names(word) if above[1] == "interface" or word[:1].isdecimal() else [word]
        nodes = [node.setdefault(name, {}) for name in names for node in nodes]
        if len(nodes) > _MOST_NODES or not all(isinstance(node, dict) for node in nodes):
            return False
        above = above[1], word
    return True


def _names(word: str) -> Iterator[str]:
    """Yield what a list stands for: `swp1-2,5,swp9s0` is swp1, swp2, swp5 and swp9s0."""
    prefix = ""
    for part in word.split(","):
        if (span := _SPAN.fullmatch(part)) is None:
            yield part
            continue
        prefix, first = span[1] or prefix, int(span[2])
        last = min(int(span[3] or first), first + _MOST_NODES)
        yield from (f"{prefix}{number}" for number in range(first, last + 1))


def view_of(answer: SavedAnswer) -> Mapping[str, Any]:
    """Return the keys of an answer, from its JSON or its text; empty if it has none."""
    if answer.document is not None:
        return members(answer.document)
    found: dict[str, Any] = {}
    for table in text_tables(answer.text):
        place = _operational(table)
        if place is not None:
            found.update(_nested(table, place))
        elif table.title in _TITLES:
            found[_TITLES[table.title]] = {
                str(number): record for number, record in enumerate(table.records())
            }
        elif "Interface" in table.columns:
            found.update(_interfaces(table))
    return found


def has_exceptions(answer: SavedAnswer) -> bool:
    """Return whether `nv show qos roce` lists ports that differ from what it shows."""
    if answer.document is not None:
        return bool(members(answer.document).get("exception-list"))
    found = _EXCEPTIONS.search(answer.text)
    return found is not None and found[1].strip() != "No Data"


def _operational(table: TextTable) -> int | None:
    """Return the column of what is so; NVIDIA's pages show its head a letter beside the column."""
    ends = (place for place, head in enumerate(table.columns) if "perational" in head)
    return next(ends, None)


def _nested(table: TextTable, place: int) -> dict[str, Any]:
    """Return the rows by their keys; a row that is indented belongs to the one above it."""
    found: dict[str, Any] = {}
    above: list[tuple[int, dict[str, Any]]] = [(-1, found)]
    for row, indent in zip(table.rows, table.indents, strict=True):
        while above[-1][0] >= indent:
            above.pop()
        inside = above[-1][1]
        if row[place]:
            inside[row[0]] = row[place]
        elif len(above) <= _MOST_DEPTH:
            inside[row[0]] = {}
            above.append((indent, inside[row[0]]))
    return found


def _interfaces(table: TextTable) -> dict[str, Any]:
    """Return the table of `nv show interface` as its JSON has it."""
    found = {}
    for row in table.records():
        link = {
            "mtu": row.get("MTU"),
            "speed": row.get("Speed"),
            "oper-status": row.get("Oper Status") or row.get("State"),
        }
        neighbour = row.get("Remote Host")
        found[row["Interface"]] = {
            "link": {key: each for key, each in link.items() if each},
            "lldp": {"neighbor": {neighbour: {}} if neighbour else {}},
        }
    return found
