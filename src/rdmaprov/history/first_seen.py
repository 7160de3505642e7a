"""Since when a site has which trouble, and whether it still does."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from rdmaprov.history.digest import Trouble
from rdmaprov.history.site_runs import SiteRun
from rdmaprov.history.troubles import common_keys


@dataclass
class Seen:
    """A trouble over the runs of one verb."""

    verb: str
    kind: str  # what it is, of this version; where a run has no kinds, its text without names
    text: str
    proven: bool  # whether any run proved it; else it is unknown
    first: SiteRun
    newest: SiteRun
    runs: int = 0
    of: int = 0  # how many runs of the verb there were since the first one
    is_there: bool = False
    nodes: set[str] = field(default_factory=set)
    rails: set[int] = field(default_factory=set)
    # the nodes that have it by the last run that asked them everything; empty for the fleet
    at: set[str] = field(default_factory=set)

    def as_data(self) -> dict[str, object]:
        """Return it as JSON has it."""
        return {
            "verb": self.verb,
            "kind": self.kind,
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
    verbs = {run.verb for run in runs}
    read = partial(_troubles, connection)
    keys = {verb: common_keys([run for run in runs if run.verb == verb], read) for verb in verbs}
    for run in runs:
        count[run.verb] = count.get(run.verb, 0) + 1
        here: dict[tuple[str, str], set[str]] = {}
        for each in read(run):
            own = run.verb, keys[run.verb].get(each.key, each.key)
            began.setdefault(own, count[run.verb])
            seen = found.setdefault(own, Seen(run.verb, own[1], each.text, False, run, run))
            seen.newest, seen.text = run, each.text
            seen.proven = seen.proven or each.proven
            seen.nodes |= {each.node} - {""}
            seen.rails |= set() if each.rail is None else {each.rail}
            here.setdefault(own, set()).add(each.node)
        for own in here:
            found[own].runs += 1
        whole = _asked_whole(connection, run)
        for own, seen in found.items():
            if own[0] == run.verb:
                seen.at = (seen.at - whole) | here.get(own, set())
    for own, seen in found.items():
        seen.of = count[seen.verb] - began[own] + 1
        seen.is_there = bool(seen.at)
    return sorted(found.values(), key=lambda each: (not each.is_there, -each.first.started))


def _asked_whole(connection: sqlite3.Connection, run: SiteRun) -> set[str]:
    """Return the nodes that a run asked everything; the fleet is empty."""
    own = (run.id,)
    there = {node for (node,) in connection.execute("SELECT node FROM state WHERE run = ?", own)}
    parts = {node for (node,) in connection.execute("SELECT node FROM partial WHERE run = ?", own)}
    return {*there, ""} - parts


def _troubles(connection: sqlite3.Connection, run: SiteRun) -> list[Trouble]:
    rows = connection.execute(
        "SELECT key, node, rail, text, proven, words FROM trouble WHERE run = ?", (run.id,)
    )
    return [
        Trouble(key, node, rail, text, bool(proven), words)
        for key, node, rail, text, proven, words in rows
    ]
