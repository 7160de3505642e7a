"""The findings of a page; equal ones of many nodes are one."""

import re
import shlex
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from rdmaprov.report.model import ORDER, Cell, Grid, GridRow, Issue, Skip, Tone
from rdmaprov.runs import groups
from rdmaprov.words import some

ALL = "whole fleet"
_NAMED = 8  # most nodes that a command names; above, the list below it has the names
_TOKEN = re.compile(r"[\w.-]+")


def grid(
    subject: str,
    columns: Iterable[str],
    cells: Mapping[str, tuple[Cell, ...]],
    words: tuple[tuple[Tone, str], ...],
    together: tuple[Cell, ...] = (),
) -> Grid:
    """Return the grid of a run.

    Args:
        cells: a node's cells, by its name.
        together: the cells of the whole fleet; none if no finding concerns it.
    """
    groups_of: dict[tuple[Cell, ...], list[str]] = {}
    for node, own in cells.items():
        groups_of.setdefault(own, []).append(node)
    rows = [
        GridRow(groups.label(names, len(cells)), tuple(names), own)
        for own, names in groups_of.items()
    ]
    if together:
        rows.append(GridRow(ALL, (), together))
    rows.sort(key=lambda row: (ORDER[row.tone], -_bad(row), len(row.nodes)))
    return Grid(subject, tuple(columns), tuple(rows), words)


def _bad(row: GridRow) -> int:
    """Return how many cells are as bad as the worst, 0 if all are good."""
    return sum(cell.tone is row.tone for cell in row.cells if row.tone is not Tone.GOOD)


@dataclass(frozen=True)
class Message:
    """One message of a node, or of the whole fleet."""

    tone: Tone  # BAD: failed; UNKNOWN: unknown; DUE: pending; IDLE: skipped
    where: str
    node: str  # its name; empty for the whole fleet
    text: str
    remedy: str


@dataclass(frozen=True)
class Scope:
    """The nodes of a run, and how a command names them: the site and the run's own limit."""

    path: str
    limit: str | None
    nodes: Collection[str]

    def command(self, verb: str, nodes: Collection[str], *more: str) -> str:
        """Return a command line for some of the run's nodes."""
        pattern = ",".join(nodes)
        if len(nodes) == len(self.nodes):
            pattern = self.limit or ""
        limit = ["--limit", pattern] if pattern else []
        return shlex.join(["rdmaprov", verb, self.path, *limit, *more])


def group_messages(messages: Iterable[Message], site: Scope) -> tuple[Issue, ...]:
    """Return the findings; messages that differ only in node or device are one. The worst first."""
    mask = groups.name_masker(site.nodes)
    found: dict[tuple[str, ...], list[Message]] = {}
    for each in messages:
        key = (each.tone, mask(each.text), mask(each.remedy))
        found.setdefault(key, []).append(each)
    issues = [_merge_messages(own, site) for own in found.values()]
    return tuple(sorted(issues, key=lambda each: (ORDER[each.tone], -len(each.nodes))))


def _merge_messages(own: list[Message], site: Scope) -> Issue:
    first = own[0]
    nodes = tuple(dict.fromkeys(each.node for each in own if each.node))
    where = tuple(dict.fromkeys(each.where for each in own))
    return Issue(
        first.tone,
        some(where, 1),
        first.text,
        widen_remedy(first.remedy, nodes, site),
        groups.label(nodes, len(site.nodes)) if nodes else "",
        nodes,
        tuple(dict.fromkeys(each.text for each in own)),
    )


def widen_remedy(remedy: str, nodes: tuple[str, ...], site: Scope) -> str:
    """Return a remedy for one node as a remedy for all of these nodes."""
    one = f" --limit {nodes[0]}" if nodes else ""
    if len(nodes) < 2 or nodes[0] not in _TOKEN.findall(remedy):
        return remedy
    if not re.search(re.escape(one) + r"(?![\w.,-])", remedy):
        return f"{remedy} (likewise on the other nodes)"
    if len(nodes) == len(site.nodes):
        every = f" --limit {shlex.quote(site.limit)}" if site.limit else ""
        return remedy.replace(one, every)
    if len(nodes) <= _NAMED:
        return remedy.replace(one, " --limit " + shlex.quote(",".join(nodes)))
    return f"{remedy} (for all {len(nodes)} nodes, pass the names below)"


def group_skips(messages: Iterable[Message], site: Scope) -> tuple[Skip, ...]:
    """Return the skipped checks by reason, the most frequent first."""
    mask = groups.name_masker(site.nodes)
    found: dict[str, list[Message]] = {}
    for each in messages:
        found.setdefault(mask(each.text), []).append(each)
    skips = []
    for own in found.values():
        nodes = tuple(dict.fromkeys(each.node for each in own if each.node))
        label = groups.label(nodes, len(site.nodes)) if nodes else ALL
        subjects = tuple(dict.fromkeys(each.where for each in own))
        skips.append(Skip(own[0].text or "no reason given", len(own), label, nodes, subjects))
    return tuple(sorted(skips, key=lambda each: -each.checks))
