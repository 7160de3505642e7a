"""Read ibqueryerrors and perfquery: the counters of ports."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rdmaprov.subnet.model import Reading

_NODE = re.compile(r'Errors for (?:(0x[0-9a-fA-F]{1,16})\s+)?"(.*)"\s*$')
_PORT = re.compile(r"\s*GUID (0x[0-9a-fA-F]{1,16}) port ([0-9]{1,20}):(.*)$")
_COUNT = re.compile(r"\[(\w+) == ([0-9]{1,20})[^\]]*\]")
_SUMMARY = re.compile(r"##\s+([0-9]{1,20}) ports checked, ([0-9]{1,20}) ports have errors")
_BLOCK = re.compile(r"# Port (?:extended )?counters: Lid ([0-9]{1,20}) port ([0-9]{1,20})")
_VALUE = re.compile(r"(\w+):\.*([0-9]{1,20})\s*$")
ALL_PORTS = 255


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
        if block := _BLOCK.match(line):
            readings.append(Reading("", int(block[2]), {}, lid=int(block[1])))
        elif readings and (value := _VALUE.match(line)):
            readings[-1].counters[value[1]] = int(value[2])
    return [each for each in readings if each.port != ALL_PORTS and each.counters]
