"""Read sminfo and saquery: which subnet managers answer, in which state, and who is known."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rdmaprov.subnet.model import Manager

_MANAGER = re.compile(
    r".*\bsm lid ([0-9]{1,20}) sm guid (0x[0-9a-fA-F]{1,16}), activity count [0-9]{1,20}"
    r" priority ([0-9]{1,20}) state [0-9]{1,20} SMINFO_([A-Z]+)"
)
# What sminfo says when the manager that the port knows does not answer, or there is none.
_NO_ANSWER = re.compile(r"(failed: query|bad status|Invalid SM lid|can't resolve|timed out)", re.I)


# ibdiagnet2.sm: a head for each state, then its managers.
_HEAD = re.compile(r"\s*SM - ([a-z][a-z -]{0,20}?)\s*$")
_OF_HEAD = re.compile(
    r"\s*Port=[0-9]{1,5} lid=(0x[0-9a-fA-F]{1,4}) guid=(0x[0-9a-fA-F]{1,16}) .*"
    r"priority:([0-9]{1,20})\s*$"
)
_RECORD = re.compile(r"\s*LID\.{3,}([0-9]{1,5})\s*$")


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
        elif found := _HEAD.match(line):
            state = found[1].upper()
        elif state and (found := _OF_HEAD.match(line)):
            managers.append(Manager(int(found[1], 16), int(found[2], 16), state, int(found[3])))
        elif _NO_ANSWER.search(line):
            failed = line.strip()
    return managers, failed
