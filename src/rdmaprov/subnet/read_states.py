"""Read iblinkinfo: the state of each port, in one line (`-l`) or in blocks."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rdmaprov.subnet.model import PortState

_WHOLE = re.compile(r'\s*(0x[0-9a-fA-F]{1,16})\s+"\s*(.*?)"\s+([0-9]{1,20})\s+([0-9]{1,20})\[')
_BLOCK = re.compile(r"\s*(?:(0x[0-9a-fA-F]{1,16})\s+)?([0-9]{1,20})\s+([0-9]{1,20})\[")
_HEAD = re.compile(r"(Switch|CA|Router):\s*(?:(0x[0-9a-fA-F]{1,16})\s+)?(.*?):?\s*$")
_STATE = re.compile(
    r"==\(\s*(?:([0-9]{1,20})X\s+([\d.]+) Gbps(?:\s*\(\w+\))?)?\s*(\w+)/\s*([\w ]+?)\s*\)==>"
)
_PEER = re.compile(
    r"==>\s+(?:0x[0-9a-fA-F]+\s+)?(?:[0-9]{1,20}\s+([0-9]{1,20}))?"
    r'\[.*?\]\s+"(.*)"\s+\((.*)\)\s*$'
)
_COULD = re.compile(r"Could be ([\d.]+X|[\d.]+ Gbps(?: \(\w+\))?)")


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
        tuple(_COULD.findall(peer[3])),
        peer[2],
        int(peer[1]) if peer[1] else None,
    )
