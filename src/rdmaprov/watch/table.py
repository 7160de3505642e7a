"""The rails that are worst at the moment, as a table for a terminal."""

from __future__ import annotations

from collections.abc import Mapping

from rich import box
from rich.table import Table

from rdmaprov.watch.fleet import leaf_of
from rdmaprov.watch.node_account import NodeAccount
from rdmaprov.watch.rail import Column, RailAccount, RailRow

ROWS = 12
_HEAD = (
    "rail",
    "leaf",
    "sent GB/s",
    "received GB/s",
    "marked",
    "CNPs/s",
    "paused",
    "pausing",
    "errors",
)
_ERRORS = ("symbol", "discard", "crc", "seq_err", "timeout", "rcv_errors", "icrc", "downed")


def worst_table(nodes: Mapping[str, NodeAccount]) -> Table:
    """Return the worst rails, the worst first; none of those that are fine and idle."""
    table = Table(box=box.SIMPLE, pad_edge=False)
    for place, title in enumerate(_HEAD):
        table.add_column(title, justify="left" if place < 2 else "right", no_wrap=True)
    rows = [
        (_badness(rail), name, number, node)
        for name, node in nodes.items()
        if node.lost is None and node.answers
        for number, rail in enumerate(node.rails)
    ]
    rows.sort(key=lambda row: (row[0], row[3].rails[row[2]].row.rate(Column.SENT)), reverse=True)
    for _, name, number, node in rows[:ROWS]:
        rail, leaf = node.rails[number], leaf_of(node.node)
        table.add_row(f"{name} rail {number}", leaf, *_cells(rail.row), _errors(node, number))
    return table


def _badness(rail: RailAccount) -> float:
    """Return how far a rail is from a quiet one: the parts of a second, or of its packets."""
    row = rail.row
    return (
        10 * (row.counts[Column.DOWN] > 0)
        + row.share(Column.PAUSING)
        + row.share(Column.PAUSED)
        + row.marked_share
    )


def _cells(row: RailRow) -> list[str]:
    if row.counts[Column.DOWN]:
        return ["no link", "", "", "", "", ""]
    return [
        f"{row.rate(Column.SENT) / 1e9:.2f}",
        f"{row.rate(Column.RECEIVED) / 1e9:.2f}",
        f"{row.marked_share:.1%}",
        f"{row.rate(Column.CNPS_HANDLED) + row.rate(Column.CNPS_SENT):,.0f}",
        f"{row.share(Column.PAUSED):.0%}",
        f"{row.share(Column.PAUSING):.0%}",
    ]


def _errors(node: NodeAccount, rail: int) -> str:
    count = sum(
        total
        for (own, name), total in node.totals.items()
        if own == rail and total and any(word in name for word in _ERRORS)
    )
    return f"{count:,}" if count else ""
