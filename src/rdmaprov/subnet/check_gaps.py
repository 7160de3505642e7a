"""Find nodes that are missing between their neighbours: in names, and at the ports of switches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from rdmaprov.finding.finding import Finding
from rdmaprov.subnet.fabric import SubnetGraph, by_host
from rdmaprov.subnet.names import Series, series
from rdmaprov.subnet.problem import wrong

_MOST_ABSENT = 4  # of neighbours in a row; our choice, more are another row of names
# For each number of a series: the name, and on which switch and port it is, by device or leaf.
_Places = dict[int, tuple[str, dict[object, tuple[int, int]]]]


def gap_problems(fabric: SubnetGraph) -> Iterator[Finding]:
    """Yield hosts and switches that a series of names lacks, where free ports lack them, too.

    A gap in names alone is no evidence: numbers are left out for many reasons.
    """
    used = [set(own) for own in fabric.by_port]
    for hca in fabric.hcas:
        used[hca.switch].add(hca.port)
    for kind, rows in (("host", _hosts(fabric)), ("switch", _spines(fabric))):
        for row in rows:
            for absent, beside in _absent(row.places, used):
                name = row.series.name(absent, row.width)
                text = f"{kind} {name} is missing: between the ports of {beside} are free ones"
                yield wrong("subnet.missing", name, None, text)


@dataclass
class _Row:
    """The nodes of one series of names: each number's places, and the width of the numbers."""

    series: Series
    places: _Places
    width: int = 1


def _rows(named: Iterator[tuple[str, dict[object, tuple[int, int]]]]) -> list[_Row]:
    rows: dict[Series, _Row] = {}
    for name, places in named:
        if found := series(name):
            row = rows.setdefault(found[0], _Row(found[0], {}))
            row.places[found[1]] = (name, places)
            row.width = max(row.width, found[2])
    return list(rows.values())


def _hosts(fabric: SubnetGraph) -> list[_Row]:
    return _rows(
        (host, {device: (hca.switch, hca.port) for device, hca in own.items()})
        for host, own in by_host(fabric).items()
    )


def _spines(fabric: SubnetGraph) -> list[_Row]:
    """Return for each switch above others on which port each of these has it: the first of many."""
    return _rows(
        (end.name, _below(fabric, switch))
        for switch, end in enumerate(fabric.switches)
        if fabric.levels[switch]
    )


def _below(fabric: SubnetGraph, switch: int) -> dict[object, tuple[int, int]]:
    ports: dict[object, tuple[int, int]] = {}
    for hop in sorted(fabric.by_port[switch].values(), key=lambda hop: hop.target_port):
        if fabric.levels[hop.target] < fabric.levels[switch]:
            ports.setdefault(hop.target, (hop.target, hop.target_port))
    return ports


def _absent(places: _Places, used: list[set[int]]) -> Iterator[tuple[int, str]]:
    """Yield the numbers that are missing, with their neighbours."""
    numbers = sorted(places)
    for low, high in pairwise(numbers):
        (before, below), (after, above) = places[low], places[high]
        absent = high - low - 1
        shared = below.keys() & above.keys()
        if not 1 <= absent <= _MOST_ABSENT or not shared:
            continue
        if all(_has_room(below[each], above[each], absent, used) for each in shared):
            for number in range(low + 1, high):
                yield number, f"{before} and {after}"


def _has_room(
    low: tuple[int, int], high: tuple[int, int], absent: int, used: list[set[int]]
) -> bool:
    """Return whether two ports of one switch have as many free ports between them, at least."""
    if low[0] != high[0]:
        return False
    first, last = sorted((low[1], high[1]))
    return sum(port not in used[low[0]] for port in range(first + 1, last)) >= absent
