"""Since when a site has which trouble, and whether it still does."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field

from rdmaprov.history.site_runs import SiteRun


@dataclass
class Seen:
    """A trouble over the runs of one verb.

    Attributes:
        verb: that reports it.
        text: the newest message.
        proven: whether any run proved it; else it is unknown.
        first: the run that saw it first.
        newest: the last one that did.
        runs: how many did.
        of: how many runs of the verb there were since the first one.
        is_there: whether the newest run of the verb has it.
        nodes: that ever had it.
        rails: their rails.

    """

    verb: str
    text: str
    proven: bool
    first: SiteRun
    newest: SiteRun
    runs: int = 0
    of: int = 0
    is_there: bool = False
    nodes: set[str] = field(default_factory=set)
    rails: set[int] = field(default_factory=set)

    def as_data(self) -> dict[str, object]:
        """Return it as JSON has it."""
        return {
            "verb": self.verb,
            "text": self.text,
            "proven": self.proven,
            "first_run": self.first.name,
            "newest_run": self.newest.name,
            "runs": self.runs,
            "of": self.of,
            "is_there": self.is_there,
            "nodes": sorted(self.nodes),
            "rails": sorted(self.rails),
        }


def seen_troubles(connection: sqlite3.Connection, runs: Sequence[SiteRun]) -> list[Seen]:
    """Return each trouble once: those that are there first, of these the newest first."""
    found: dict[tuple[str, str], Seen] = {}
    count: dict[str, int] = {}
    began: dict[tuple[str, str], int] = {}
    newest = {run.verb: run for run in runs}
    for run in runs:
        count[run.verb] = count.get(run.verb, 0) + 1
        here = set()
        rows = connection.execute(
            "SELECT key, node, rail, text, proven FROM trouble WHERE run = ?", (run.id,)
        )
        for key, node, rail, text, proven in rows:
            own = run.verb, key
            began.setdefault(own, count[run.verb])
            seen = found.setdefault(own, Seen(run.verb, text, False, run, run))
            seen.newest, seen.text = run, text
            seen.proven = seen.proven or bool(proven)
            seen.nodes |= {node} - {""}
            seen.rails |= {rail} - {None}
            here.add(own)
        for own in here:
            found[own].runs += 1
    for own, seen in found.items():
        seen.of = count[seen.verb] - began[own] + 1
        seen.is_there = seen.newest.id == newest[seen.verb].id
    return sorted(found.values(), key=lambda each: (not each.is_there, -each.first.started))
