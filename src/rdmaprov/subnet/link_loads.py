"""The load of the links between two levels of a fabric, as a matrix for a picture."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

from rdmaprov.subnet.judge import Assessment
from rdmaprov.subnet.loads import Load
from rdmaprov.subnet.names import natural

# A ring per rail that crosses a spine with each hop; where nothing of it crosses, all to all.
_PATTERNS = ("ringx", "all_to_all")


@dataclass(frozen=True)
class LevelLoad:
    """The links from the switches of one level to those of the next.

    Args:
        below: the switches nearer to the HCAs, by name.
        cables: for each switch above, how many links each switch below has to it.
        busiest: for each switch above, the flows on the busiest of these links, upwards.
        flows: for each switch above, the flows on all of them.
    """

    pattern: str
    below: tuple[str, ...]
    above: tuple[str, ...]
    cables: tuple[tuple[int, ...], ...]
    busiest: tuple[tuple[int, ...], ...]
    flows: tuple[tuple[int, ...], ...]


def level_loads(assessment: Assessment) -> list[LevelLoad]:
    """Return the loads between each two levels that links connect, from the leaves up."""
    found = _pattern(assessment)
    if found is None:
        return []
    fabric = assessment.fabric
    pairs: dict[tuple[int, int], list[int]] = defaultdict(list)
    for hop in fabric.hops:
        if fabric.is_up(hop):
            pairs[fabric.levels[hop.source], fabric.levels[hop.target]].append(hop.number)
    return [_level(assessment, *found, hops) for _, hops in sorted(pairs.items())]


def _pattern(assessment: Assessment) -> tuple[str, Load] | None:
    for name in _PATTERNS:
        load = assessment.loads.get(name)
        if load is not None and load.worst:
            return name, load
    return None


def _level(assessment: Assessment, pattern: str, load: Load, numbers: list[int]) -> LevelLoad:
    fabric = assessment.fabric
    cables: Counter[tuple[str, str]] = Counter()
    busiest: Counter[tuple[str, str]] = Counter()
    flows: Counter[tuple[str, str]] = Counter()
    for number in numbers:
        hop = fabric.hops[number]
        key = fabric.label(hop.target), fabric.label(hop.source)
        carried = load.flows.get(number, 0)
        cables[key] += 1
        busiest[key] = max(busiest[key], carried)
        flows[key] += carried
    above = tuple(sorted({top for top, _ in cables}, key=natural))
    below = tuple(sorted({bottom for _, bottom in cables}, key=natural))

    def matrix(counts: Counter[tuple[str, str]]) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(counts[top, bottom] for bottom in below) for top in above)

    return LevelLoad(pattern, below, above, matrix(cables), matrix(busiest), matrix(flows))
