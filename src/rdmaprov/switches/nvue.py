"""What `nv show` prints as text, brought into the shape of its JSON."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rdmaprov.switches.saved import SavedAnswer
from rdmaprov.switches.shapes import members
from rdmaprov.switches.tables import TextTable, text_tables

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
