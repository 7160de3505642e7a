"""The heat map of bandwidth between nodes, with outliers marked."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rdmaprov.bandwidth import outliers
from rdmaprov.bandwidth.rates import format_gb_s
from rdmaprov.report.drawing import draw_svg, short
from rdmaprov.report.heat_map import HeatMap, draw_map
from rdmaprov.report.model import Plot, Table

# A 4 MiB burst takes milliseconds, so healthy ones differ; see acceptance.paths.
LEAST_RATIO = 2.0
_MOST_CELLS = 256  # along one edge: more would be less than a pixel of a screen
_MOST_NAMED = 4
_MOST_ROWS = 512  # of the table; results.json has all
_Ends = tuple[str, str, str]  # plane, from, to


def plot(data: Mapping[str, Any]) -> Plot | None:
    """Return the plot, None if no pair was measured."""
    rates = {
        (plane["name"], pair["from"], pair["to"]): (pair["gb_s"], pair["us"])
        for plane in data["planes"]
        for pair in plane["pairs"]
        if pair["from"] != pair["to"]
    }
    if not rates:
        return None
    slow = slowest({ends: rate for ends, (rate, _) in rates.items()})
    found = heat_map({ends: rate for ends, (rate, _) in rates.items()}, slow, list(data["nodes"]))
    words = f"{len(slow):,} of {len(rates):,} directions are outliers{_name_outliers(slow)}"
    most = max(found.values.values())
    size = (9, 7.6 if found.down else min(8.0, 1.6 + 0.3 * len(found.rows)))
    return Plot(
        "pairs",
        "Bandwidth between nodes",
        draw_svg("pairs", size, lambda axes: draw_map(axes, found, "GB/s", most)),
        words,
        f"A 4 MiB burst in each direction; brighter is faster. {words}. A ring marks an outlier: "
        f"at least {LEAST_RATIO:g} times slower than the median of its rails, and by more than "
        "eight robust standard deviations.",
        _table(rates, slow),
    )


def slowest(rates: Mapping[_Ends, float]) -> list[_Ends]:
    """Return the directions that are far slower than others of their plane, slowest first."""
    planes: dict[str, dict[str, float]] = {}
    ends_of = {" ".join(ends): ends for ends in rates}
    for key, ends in ends_of.items():
        # Time per byte, as the statistic finds only high outliers.
        planes.setdefault(ends[0], {})[key] = 1 / rates[ends] if rates[ends] > 0 else math.inf
    found = [ends_of[key] for own in planes.values() for key in outliers.high(own, LEAST_RATIO)]
    return sorted(found, key=rates.__getitem__)


def heat_map(rates: Mapping[_Ends, float], slow: Iterable[_Ends], nodes: Sequence[str]) -> HeatMap:
    """Return the map of all pairs, or of the first node with all others if only these exist."""
    hub = nodes[0] if nodes else ""
    if all(hub in ends[1:] for ends in rates):
        return _map_of_hub(rates, set(slow), nodes, hub)
    return _map_of_all(rates, set(slow), nodes)


def _map_of_hub(
    rates: Mapping[_Ends, float], slow: set[_Ends], nodes: Sequence[str], hub: str
) -> HeatMap:
    """Return a row for each plane and direction, and a column for each node."""
    planes = dict.fromkeys(plane for plane, _, _ in rates)
    places = {(plane, way): 2 * n + way for n, plane in enumerate(planes) for way in (0, 1)}
    columns = {name: place for place, name in enumerate(node for node in nodes if node != hub)}
    gb_s, marked = {}, set()
    for (plane, source, target), rate in rates.items():
        place = places[plane, int(target == hub)], columns[source if target == hub else target]
        gb_s[place] = rate
        if (plane, source, target) in slow:
            marked.add(place)
    ways = (f"from {short(hub)}", f"to {short(hub)}")
    rows = tuple(f"{plane}, {ways[way]}" for plane, way in places)
    return HeatMap(rows, tuple(columns), gb_s, frozenset(marked), "", "node")


def _map_of_all(rates: Mapping[_Ends, float], slow: set[_Ends], nodes: Sequence[str]) -> HeatMap:
    """Return senders by receivers, the slowest plane of each; on large fleets nodes share cells."""
    share = -(-len(nodes) // _MOST_CELLS)
    place_of = {name: number // share for number, name in enumerate(nodes)}
    names = tuple(nodes[first] for first in range(0, len(nodes), share))
    gb_s: dict[tuple[int, int], float] = {}
    for (_, source, target), rate in rates.items():
        place = place_of[source], place_of[target]
        gb_s[place] = min(rate, gb_s.get(place, math.inf))
    marked = frozenset((place_of[source], place_of[target]) for _, source, target in slow)
    return HeatMap(names, names, gb_s, marked, "sender", "receiver")


def _name_outliers(slow: list[_Ends]) -> str:
    """Return the directions; if there are many, the nodes with most of them."""
    if not slow:
        return ""
    if len(slow) <= _MOST_NAMED:
        return ": " + ", ".join(f"{source} → {target} ({plane})" for plane, source, target in slow)
    counts = Counter(node for _, *ends in slow for node in ends)
    most = ", ".join(f"{node} ({count})" for node, count in counts.most_common(_MOST_NAMED))
    return f"; most often: {most}"


def _table(rates: Mapping[_Ends, tuple[float, float]], slow: list[_Ends]) -> Table:
    """Return the table of directions, the slowest first."""
    odd = set(slow)
    ordered = sorted(rates, key=lambda ends: rates[ends][0])[:_MOST_ROWS]
    rows = tuple(
        (
            *ends,
            format_gb_s(rates[ends][0]),
            f"{rates[ends][1]:,.1f} µs",
            "outlier" if ends in odd else "",
        )
        for ends in ordered
    )
    rest = len(rates) - len(rows)
    left_out = f"The slowest {len(rows)} of {len(rates):,}; results.json has all." if rest else ""
    return Table(("rails", "from", "to", "bandwidth", "latency", ""), rows, left_out)
