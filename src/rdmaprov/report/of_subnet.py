"""The page of `subnet`."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rdmaprov.report.drawing import draw_svg
from rdmaprov.report.heat_map import HeatMap, draw_map
from rdmaprov.report.issues import Message, Scope, grid, group_messages
from rdmaprov.report.model import Cell, Grid, Plot, Table, Tone, View
from rdmaprov.runs.groups import count_states
from rdmaprov.subnet.check_routes import MOST_EXCESS
from rdmaprov.words import quantity, some

_HEADLINES = {"ok": "Healthy", "failed": "Wrong", "unknown": "Unknown"}
_STATES = {"failed": "failed", "unknown": "unknown", "passed": "passed"}
_TONES = {"failed": Tone.BAD, "unknown": Tone.UNKNOWN, "passed": Tone.GOOD}
_SIGNS = (
    (Tone.BAD, "failed"),
    (Tone.UNKNOWN, "unknown (not verified)"),
    (Tone.GOOD, "passed: its link is as planned, without errors"),
)
_ABSENT = Cell(Tone.NONE, "", "the node has no such rail")


def view(data: Mapping[str, Any]) -> View:
    """Return the content of the page."""
    site = Scope(data["site"], data["limit"], data["nodes"])
    return View(
        headline=_HEADLINES[data["verdict"]],
        summary=_summary(data),
        grid=_grid(data),
        issues=group_messages(_messages(data), site),
        plots=plots(data),
        facts=tuple(_facts(data)),
        files=("results.json", "logs/tools.log"),
    )


def _summary(data: Mapping[str, Any]) -> str:
    states = {name: node["state"] for name, node in data["nodes"].items()}
    nodes = count_states(states, _STATES, ("failed", "unknown"))
    lost = max((each["lost_share"] or 0 for each in data["subnets"]), default=0)
    cost = f" · uneven routes cost an all-reduce up to {lost:.0%} of its bandwidth" if lost else ""
    return f"{nodes} · {quantity(len(data['problems']), 'problem')}{cost}"


def _messages(data: Mapping[str, Any]) -> Iterator[Message]:
    for each in data["problems"]:
        tone = Tone.BAD if each["level"] == "wrong" else Tone.UNKNOWN
        port = "" if each["port"] is None else f" port {each['port']}"
        rails = "".join(f" rail {number}" for number in each["rails"])
        named = each["text"].startswith((each["name"], f"{each['node']} rail "))
        at = "" if named else f"{each['name']}{port}: "
        where = f"{each['kind']},{rails}" if rails else each["kind"]
        yield Message(tone, where, each["node"], f"{at}{each['text']}", each["remedy"])


def _facts(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "read from", data["from"] or "no host has access"
    if data["saved"]:
        yield "texts", data["saved"]
    for each in data["subnets"]:
        name = f"subnet of {each['device']}" if each["device"] else "subnet"
        switches = f"{each['switches']:,} switches" if each["switches"] != 1 else "1 switch"
        hcas, links = quantity(each["hcas"], "HCA"), quantity(each["links"], "link")
        yield name, f"{switches}, {hcas}, {links}"


def _grid(data: Mapping[str, Any]) -> Grid:
    most = max((len(node["rails"]) for node in data["nodes"].values()), default=0)
    cells = {name: _cells(node["rails"], most) for name, node in data["nodes"].items()}
    return grid("rail", [f"rail {number}" for number in range(most)], cells, _SIGNS)


def _cells(rails: list[Mapping[str, Any]], most: int) -> tuple[Cell, ...]:
    by_number = {each["rail"]: each["state"] for each in rails}
    return tuple(
        Cell(_TONES[by_number[number]], "", by_number[number]) if number in by_number else _ABSENT
        for number in range(most)
    )


# Cells along each edge that a page of 960 px can show apart; our choice.
MOST_COLUMNS = 128
MOST_ROWS = 64
_BRIGHTEST = 2.0  # a load; our choice
_PATTERNS = {
    "ringx": "rings over the leaves, one for each rail, of which each hop crosses a spine",
    "all_to_all": "traffic of each HCA to each other",
}
_LEVELS = {0: "leaves", 1: "spines", 2: "cores"}
_MOST_ROWS = 512  # of the table; results.json has all


@dataclass(frozen=True)
class LoadMatrix:
    """Cells: rows are switches above, columns those below.

    Args:
        above: the first switch of each row.
        below: the first switch of each column.
        loads: for each row and column the busiest cable against the mean of the cables of the
            switch below; None without a cable.
        totals: of each switch above: name, cables, flows, share.
        threshold: the load from which a cell has a ring.
    """

    above: tuple[str, ...]
    below: tuple[str, ...]
    loads: tuple[tuple[float | None, ...], ...]
    totals: tuple[tuple[str, int, int, float], ...]
    most: Mapping[str, float | None]
    rows_each: int = 1
    columns_each: int = 1
    threshold: float = MOST_EXCESS

    def uneven(self) -> list[tuple[int, int, float]]:
        """Return the cells with a ring by row and column, the worst first."""
        found = [
            (row, column, load)
            for row, own in enumerate(self.loads)
            for column, load in enumerate(own)
            if load is not None and load >= self.threshold
        ]
        return sorted(found, key=lambda cell: (-cell[2], cell))


def matrix_of(loads: Mapping[str, Any]) -> LoadMatrix:
    """Return the matrix of a level in results.json."""
    above, below = loads["above"], loads["below"]
    relative = _relative(loads)
    rows = _blocks(len(above), MOST_ROWS)
    columns = _blocks(len(below), MOST_COLUMNS)
    flows = [sum(own) for own in loads["flows"]]
    total = sum(flows) or 1
    return LoadMatrix(
        tuple(above[row[0]] for row in rows),
        tuple(below[column[0]] for column in columns),
        tuple(
            tuple(_worst(relative[r][c] for r in row for c in column) for column in columns)
            for row in rows
        ),
        tuple(
            (name, sum(cables), own, own / total)
            for name, cables, own in zip(above, loads["cables"], flows, strict=True)
        ),
        {name: _worst(own) for name, own in zip(above, relative, strict=True)},
        len(rows[0]) if rows else 1,
        len(columns[0]) if columns else 1,
    )


def _relative(loads: Mapping[str, Any]) -> list[list[float | None]]:
    """Return the busiest cable of each pair against the mean of the cables of the one below."""
    cables, flows, busiest = loads["cables"], loads["flows"], loads["busiest"]
    means = [
        sum(own[column] for own in flows) / (sum(own[column] for own in cables) or 1)
        for column in range(len(loads["below"]))
    ]
    return [
        [
            (load / mean if mean else 0.0) if count else None
            for load, count, mean in zip(own, counts, means, strict=True)
        ]
        for own, counts in zip(busiest, cables, strict=True)
    ]


def _blocks(count: int, most: int) -> list[range]:
    size = -(-count // most) or 1
    return [range(first, min(first + size, count)) for first in range(0, count, size)]


def _worst(values: Iterable[float | None]) -> float | None:
    found = [value for value in values if value is not None]
    return max(found, default=None)


def draw(name: str, matrix: LoadMatrix) -> str:
    """Return the picture; without a cell, an empty text."""
    if not matrix.above or not matrix.below:
        return ""
    found = HeatMap(
        matrix.above,
        matrix.below,
        {
            (row, column): load
            for row, loads in enumerate(matrix.loads)
            for column, load in enumerate(loads)
            if load is not None
        },
        frozenset((row, column) for row, column, _ in matrix.uneven()),
        "above",
        "below",
    )
    size = 9, min(8.0, 1.8 + 0.3 * len(matrix.above))
    return draw_svg(name, size, lambda axes: draw_map(axes, found, "load", _BRIGHTEST))


def plots(data: Mapping[str, Any]) -> tuple[Plot, ...]:
    """Return a picture for each two levels of each subnet that cables connect."""
    return tuple(
        _plot(f"load-{number}-{level}", subnet["device"], level, loads)
        for number, subnet in enumerate(data["subnets"])
        for level, loads in enumerate(subnet.get("loads", ()))
    )


def _plot(name: str, device: str, level: int, loads: Mapping[str, Any]) -> Plot:
    matrix = matrix_of(loads)
    of = f" of {device}" if device else ""
    low, high = (_LEVELS.get(each, f"level {each}") for each in (level, level + 1))
    title = f"Load of the links from {low} to {high}{of}"
    svg = draw(name, matrix)
    return Plot(name, title, svg, _words(matrix), _note(matrix, loads), _table(matrix))


def _words(matrix: LoadMatrix) -> str:
    uneven = [
        f"{matrix.below[column]} to {matrix.above[row]} ({load:.1f})"
        for row, column, load in matrix.uneven()
    ]
    if not uneven:
        return f"No cable carries {matrix.threshold:g} times its fair share or more"
    return (
        f"{quantity(len(uneven), 'pair')} of switches with a cable that carries"
        f" {matrix.threshold:g} times its fair share or more: {some(uneven, 3)}"
    )


def _note(matrix: LoadMatrix, loads: Mapping[str, Any]) -> str:
    shared = (
        f" A cell stands for several switches ({matrix.rows_each} by {matrix.columns_each}), and"
        " shows the worst."
        if matrix.rows_each * matrix.columns_each > 1
        else ""
    )
    return (
        f"Flows of {_PATTERNS.get(loads['pattern'], loads['pattern'])}. A cell is the busiest cable"
        " of a switch below (column) to one above (row), against the mean of all cables up of the"
        f" switch below: brighter is more, {_BRIGHTEST:g} and above is the brightest; a ring marks"
        f" {matrix.threshold:g} and more.{shared} {_words(matrix)}."
    )


def _table(matrix: LoadMatrix) -> Table:
    rows = [
        (name, f"{cables:,}", f"{flows:,}", f"{share:.1%}", _load(matrix.most[name]))
        for name, cables, flows, share in matrix.totals
    ]
    left_out = len(rows) - _MOST_ROWS
    return Table(
        ("switch", "cables", "flows", "share", "busiest cable / mean"),
        tuple(rows[:_MOST_ROWS]),
        f"{left_out:,} more in results.json" if left_out > 0 else "",
    )


def _load(value: float | None) -> str:
    return "none" if value is None else f"{value:.1f}"
