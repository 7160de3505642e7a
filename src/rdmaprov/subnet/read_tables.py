"""Read dump_fts (dump_lfts): the forwarding table of each switch."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rdmaprov.subnet.model import MOST_LID, NO_PORT, ForwardingTable

_HEAD = re.compile(
    r"Unicast lids \[\w+-(0x[0-9a-fA-F]{1,4}|\d{1,5})\] of switch"
    r" .*guid (0x[0-9a-fA-F]{1,16}) \((.*)\):?\s*$"
)
_ENTRY = re.compile(r"\s*(0x[0-9a-fA-F]{1,4}|\d{1,5})\s+(\d{1,3})\s+:")
_TAIL = re.compile(r"([0-9]{1,20}) (?:valid )?lids dumped")


def read_tables(lines: Iterable[str]) -> dict[int, ForwardingTable]:
    """Return the tables by the GUID of their switch; `is_whole` only if all entries are there.

    Memory is one byte for each LID of each switch, however long the text is.
    """
    tables: dict[int, ForwardingTable] = {}
    table: ForwardingTable | None = None
    for line in lines:
        if table is not None and _put(table, line):
            continue
        if head := _HEAD.match(line):
            ports = bytearray([NO_PORT]) * (MOST_LID + 1)
            table = ForwardingTable(int(head[2], 16), head[3], ports, _number(head[1]))
            tables[table.guid] = table
        elif table is not None and (tail := _TAIL.match(line)):
            # The last line may lack its end: the words after the number are whole.
            table.is_whole = int(tail[1]) == table.entries
            table = None
    return tables


def _number(text: str) -> int:
    return int(text, 16 if text.startswith("0x") else 10)


def _put(table: ForwardingTable, line: str) -> bool:
    """Put one line into the table; return whether it was an entry."""
    entry = _ENTRY.match(line)
    if entry is None:
        return False
    lid, port = _number(entry[1]), int(entry[2])
    table.entries += 1
    if lid <= MOST_LID and port < NO_PORT:
        table.ports[lid] = port
    return True
