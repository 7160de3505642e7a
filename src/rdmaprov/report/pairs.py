"""Bandwidth between nodes, with outliers marked."""

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

from rdmaprov.bandwidth import outliers
from rdmaprov.bandwidth.rates import format_gb_s
from rdmaprov.report.model import Plot, Table

# A 4 MiB burst takes milliseconds, so healthy ones differ; see acceptance.paths.
LEAST_RATIO = 2.0
_MOST_NAMED = 4
_MOST_ROWS = 512  # of the table; results.json has all
_Ends = tuple[str, str, str]  # plane, from, to


def plot(data: Mapping[str, Any]) -> Plot | None:
    """Return the numbers, None if no pair was measured."""
    rates = {
        (plane["name"], pair["from"], pair["to"]): (pair["gb_s"], pair["us"])
        for plane in data["planes"]
        for pair in plane["pairs"]
        if pair["from"] != pair["to"]
    }
    if not rates:
        return None
    slow = slowest({ends: rate for ends, (rate, _) in rates.items()})
    words = f"{len(slow):,} of {len(rates):,} directions are outliers{_name_outliers(slow)}"
    return Plot(
        "pairs",
        "Bandwidth between nodes",
        None,
        words,
        f"A 4 MiB burst in each direction. {words}. An outlier is "
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
