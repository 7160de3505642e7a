"""Read iblinkinfo: the state of each port, in one line (`-l`) or in blocks."""

import re
from collections.abc import Iterable

from rdmaprov.subnet.model import MOST_LID, NO_PORT, ForwardingTable, Manager, PortState, Reading

_MANAGER = re.compile(
    r".*\bsm lid ([0-9]{1,20}) sm guid (0x[0-9a-fA-F]{1,16}), activity count [0-9]{1,20}"
    r" priority ([0-9]{1,20}) state [0-9]{1,20} SMINFO_([A-Z]+)"
)
# What sminfo says when the manager that the port knows does not answer, or there is none.
_NO_ANSWER = re.compile(r"(failed: query|bad status|Invalid SM lid|can't resolve|timed out)", re.I)


# ibdiagnet2.sm: a head for each state, then its managers.
_MANAGER_HEAD = re.compile(r"\s*SM - ([a-z][a-z -]{0,20}?)\s*$")
_OF_HEAD = re.compile(
    r"\s*Port=[0-9]{1,5} lid=(0x[0-9a-fA-F]{1,4}) guid=(0x[0-9a-fA-F]{1,16}) .*"
    r"priority:([0-9]{1,20})\s*$"
)
_RECORD = re.compile(r"\s*LID\.{3,}([0-9]{1,5})\s*$")
_TABLE_HEAD = re.compile(
    r"Unicast lids \[\w+-(0x[0-9a-fA-F]{1,4}|\d{1,5})\] of switch"
    r" .*guid (0x[0-9a-fA-F]{1,16}) \((.*)\):?\s*$"
)
_ENTRY = re.compile(r"\s*(0x[0-9a-fA-F]{1,4}|\d{1,5})\s+(\d{1,3})\s+:")
_TAIL = re.compile(r"([0-9]{1,20}) (?:valid )?lids dumped")
_NODE = re.compile(r'Errors for (?:(0x[0-9a-fA-F]{1,16})\s+)?"(.*)"\s*$')
_PORT = re.compile(r"\s*GUID (0x[0-9a-fA-F]{1,16}) port ([0-9]{1,20}):(.*)$")
_COUNT = re.compile(r"\[(\w+) == ([0-9]{1,20})[^\]]*\]")
_SUMMARY = re.compile(r"##\s+([0-9]{1,20}) ports checked, ([0-9]{1,20}) ports have errors")
_COUNTER_BLOCK = re.compile(r"# Port (?:extended )?counters: Lid ([0-9]{1,20}) port ([0-9]{1,20})")
_VALUE = re.compile(r"(\w+):\.*([0-9]{1,20})\s*$")
ALL_PORTS = 255
_WHOLE = re.compile(r'\s*(0x[0-9a-fA-F]{1,16})\s+"\s*(.*?)"\s+([0-9]{1,20})\s+([0-9]{1,20})\[')
_BLOCK = re.compile(r"\s*(?:(0x[0-9a-fA-F]{1,16})\s+)?([0-9]{1,20})\s+([0-9]{1,20})\[")
_HEAD = re.compile(r"(Switch|CA|Router):\s*(?:(0x[0-9a-fA-F]{1,16})\s+)?(.*?):?\s*$")
_STATE = re.compile(
    r"==\(\s*(?:([0-9]{1,20})X\s+([\d.]+) Gbps(?:\s*\(\w+\))?)?\s*(\w+)/\s*([\w ]+?)\s*\)==>"
)
_PEER = re.compile(
    r"==>\s+(?:0x[0-9a-fA-F]+\s+)?(?:[0-9]{1,20}\s+[0-9]{1,20})?"
    r'\[.*?\]\s+"(.*)"\s+\((.*)\)\s*$'
)
_COULD = re.compile(r"Could be ([\d.]+X|[\d.]+ Gbps(?: \(\w+\))?)")


def read_known(lines: Iterable[str]) -> list[int]:
    """Return the LIDs of the managers that the master knows, itself too: `saquery SMIR`."""
    found = [_RECORD.match(line) for line in lines]
    return list(dict.fromkeys(int(each[1]) for each in found if each))


def read_managers(lines: Iterable[str]) -> tuple[list[Manager], str]:
    """Return the managers of sminfo or ibdiagnet2.sm, and the line that says that none answered."""
    managers, failed, state = [], "", ""
    for line in lines:
        if found := _MANAGER.match(line):
            managers.append(Manager(int(found[1]), int(found[2], 16), found[4], int(found[3])))
        elif found := _MANAGER_HEAD.match(line):
            state = found[1].upper()
        elif state and (found := _OF_HEAD.match(line)):
            managers.append(Manager(int(found[1], 16), int(found[2], 16), state, int(found[3])))
        elif _NO_ANSWER.search(line):
            failed = line.strip()
    return managers, failed


def read_tables(lines: Iterable[str]) -> dict[int, ForwardingTable]:
    """Return the tables by the GUID of their switch; `is_whole` only if all entries are there.

    Memory is one byte for each LID of each switch, however long the text is.
    """
    tables: dict[int, ForwardingTable] = {}
    table: ForwardingTable | None = None
    for line in lines:
        if table is not None and _put(table, line):
            continue
        if head := _TABLE_HEAD.match(line):
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


def read_errors(lines: Iterable[str]) -> tuple[list[Reading], bool]:
    """Return the ports with errors, and whether the text has its summary.

    Lines of `port ALL` repeat the sums of a switch, and are left out.
    """
    name, readings, is_whole = "", [], False
    for line in lines:
        if node := _NODE.match(line):
            name = node[2]
        elif port := _PORT.match(line):
            counters = {found[1]: int(found[2]) for found in _COUNT.finditer(port[3])}
            readings.append(Reading(name, int(port[2]), counters, guid=int(port[1], 16)))
        elif _SUMMARY.match(line):
            is_whole = True
    return readings, is_whole


def read_counters(lines: Iterable[str]) -> list[Reading]:
    """Return the counters of each port of perfquery, in its order; sums of all ports left out."""
    readings: list[Reading] = []
    for line in lines:
        if block := _COUNTER_BLOCK.match(line):
            readings.append(Reading("", int(block[2]), {}, lid=int(block[1])))
        elif readings and (value := _VALUE.match(line)):
            readings[-1].counters[value[1]] = int(value[2])
    return [each for each in readings if each.port != ALL_PORTS and each.counters]


def read_states(lines: Iterable[str]) -> tuple[list[PortState], bool]:
    """Return the ports, and whether the text is cut (a line that is none, or has no end)."""
    states: list[PortState] = []
    guid, name = 0, ""
    is_cut = False
    for line in lines:
        if (head := _HEAD.match(line)) and "==(" not in line:
            guid, name = int(head[2] or "0", 16), head[3]
        elif "==(" in line or '"' in line:
            state = _port(line, guid, name)
            is_cut = is_cut or state is None
            states += [state] if state else []
        is_cut = is_cut or not line.endswith("\n")
    return states, is_cut


def _port(line: str, guid: int, name: str) -> PortState | None:
    state, peer = _STATE.search(line), _PEER.search(line)
    if state is None or peer is None:
        return None
    if whole := _WHOLE.match(line):
        guid, name, port = int(whole[1], 16), whole[2], int(whole[4])
    elif block := _BLOCK.match(line):
        guid, port = int(block[1], 16) if block[1] else guid, int(block[3])
    else:
        return None
    return PortState(
        guid,
        port,
        name,
        state[3],
        state[4],
        int(state[1] or 0),
        float(state[2] or 0),
        tuple(_COULD.findall(peer[2])),
        peer[1],
    )
