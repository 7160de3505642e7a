"""Single paths: how many are bad, and a table of the worst."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rdmaprov.bandwidth.rates import format_gb_s, format_percent
from rdmaprov.report.model import Plot, Table
from rdmaprov.words import quantity

_MOST_ROWS = 200  # of the table; results.json has all
_Path = Mapping[str, Any]


def plots(data: Mapping[str, Any]) -> Iterator[Plot]:
    """Yield the numbers of the paths of a run; none if no path was tested."""
    paths = data.get("paths")
    if not paths or not paths["rows"]:
        return
    nodes, limit = list(paths["names"]), paths["limit"]
    rows = [_path(row, nodes, limit) for row in paths["rows"]]
    known = [row for row in rows if row["share"] is not None]
    bad = sorted((row for row in known if row["bad"]), key=lambda row: row["share"])
    words = (
        f"{quantity(len(known), 'path')}, {len(bad):,} bad, {len(rows) - len(known):,} unknown"
        f"{_name_worst(bad)}"
    )
    yield Plot(
        "paths",
        "Bandwidth of paths",
        None,
        words,
        f"{words}. A bad path is below {format_percent(limit)} of good ones. {paths['expected']}",
        _worst_table(bad or sorted(known, key=lambda row: row["share"]), rows),
    )


def _path(row: Sequence[Any], nodes: Sequence[str], limit: float) -> _Path:
    """Return a row of results.json by its names."""
    sender, receiver, rail, into, gb_s, share, usec, error = row
    return {
        "from": nodes[sender],
        "to": nodes[receiver],
        "rail": rail,
        "into": into,
        "gb_s": gb_s,
        "share": share,
        "usec": usec,
        "error": error,
        "bad": share is not None and share < limit,
    }


def _title(rail: tuple[int, int]) -> str:
    return f"rail {rail[0]}" if rail[0] == rail[1] else f"rail {rail[0]} to rail {rail[1]}"


def _name_worst(bad: Sequence[_Path]) -> str:
    if not bad:
        return ""
    counts = Counter(row[end] for row in bad for end in ("from", "to"))
    return "; most often: " + ", ".join(f"{node} ({n})" for node, n in counts.most_common(4))


def _worst_table(shown: Sequence[_Path], rows: Sequence[_Path]) -> Table:
    """Return paths, the slowest first, and then those without a result."""
    silent = [row for row in rows if row["share"] is None]
    listed = [*shown, *silent][:_MOST_ROWS]
    lines = tuple(
        (
            row["from"],
            row["to"],
            _title((row["rail"], row["into"])),
            format_gb_s(row["gb_s"]) if row["gb_s"] else "-",
            "-" if row["share"] is None else format_percent(row["share"]),
            f"{row['usec']:.1f} µs" if row["usec"] else "-",
            row["error"],
        )
        for row in listed
    )
    rest = len(shown) + len(silent) - len(listed)
    more = f"{rest:,} more are in results.json." if rest else ""
    return Table(("from", "to", "rail", "bandwidth", "of good paths", "latency", ""), lines, more)
