"""The history of a site: what its runs say together."""

import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import rdmaprov
from rdmaprov.exit_codes import ExitCode
from rdmaprov.history import changes, site_runs
from rdmaprov.history.certificate_facts import UNTIL
from rdmaprov.history.changes import SeriesChange, Track
from rdmaprov.history.events import Event, all_events
from rdmaprov.history.first_seen import Seen, seen_troubles
from rdmaprov.history.from_accept import SENT
from rdmaprov.history.index import Index, Unread
from rdmaprov.history.site_runs import SiteRun
from rdmaprov.history.standing import node_standing


@dataclass(frozen=True)
class Newest:
    """What the newest runs of a site say."""

    runs: dict[str, SiteRun]
    # by verb, how many checks and findings its newest run has
    troubles: dict[str, int] = field(default_factory=dict)
    # the state of each stage of the newest acceptance
    stages: dict[str, str] = field(default_factory=dict)
    # GB/s that each rail of each node sent in it, while busy
    rails: dict[tuple[str, int], float] = field(default_factory=dict)
    # of the newest certificate, in seconds since 1970; None without one
    valid_until: float | None = None


def newest_of(connection: sqlite3.Connection, runs: Sequence[SiteRun]) -> Newest:
    """Return what the newest runs of a site say.

    Args:
        runs: of the site, the oldest first.
    """
    newest = {run.verb: run for run in runs}
    count = "SELECT count(DISTINCT key || char(0) || node) FROM trouble WHERE run = ?"
    troubles = {
        verb: int(connection.execute(count, (run.id,)).fetchone()[0])
        for verb, run in newest.items()
    }
    until = _valid_until(connection, runs)
    if "accept" not in newest:
        return Newest(newest, troubles, valid_until=until)
    own = (newest["accept"].id,)
    stages = dict(connection.execute("SELECT name, state FROM stage WHERE run = ?", own))
    rows = connection.execute(
        "SELECT node, rail, value FROM value JOIN series ON series.id = value.series"
        " WHERE run = ? AND what = ? AND node > ''",
        (*own, SENT),
    )
    rails = {(node, int(rail)): value for node, rail, value in rows}
    return Newest(newest, troubles, stages, rails, until)


def _valid_until(connection: sqlite3.Connection, runs: Sequence[SiteRun]) -> float | None:
    for run in reversed(runs):
        rows = connection.execute(
            "SELECT value FROM fact WHERE run = ? AND key = ?", (run.id, UNTIL)
        )
        for (text,) in rows:
            return datetime.fromisoformat(text).timestamp()
    return None


SCHEMA = 1


@dataclass(frozen=True)
class History:
    """What the runs of a site say together."""

    site: Path
    made: float  # seconds since 1970
    took_s: float
    runs: list[SiteRun]
    unread: list[Unread]  # those that were left out, of any site
    changes: list[SeriesChange]  # of measurements, in the order of time
    events: list[Event]  # versions, hardware and settings that changed, in the order of time
    troubles: list[Seen]
    nodes: dict[str, dict[str, dict[str, object]]]
    fleet: list[Track]  # the series of all nodes together, the largest size of each
    newest: Newest
    tracks: int

    @property
    def killed(self) -> list[Unread]:
        """Return the runs without results: they were killed, or are still running."""
        return [each for each in self.unread if each.why.startswith(site_runs.KILLED)]

    @property
    def damaged(self) -> list[Unread]:
        """Return the runs whose results cannot be read."""
        return [each for each in self.unread if not each.why.startswith(site_runs.KILLED)]

    def exit_code(self) -> ExitCode:
        """Return 1 if a change for the worse holds, 4 if results cannot be read, else 0."""
        if any(each.is_worse and each.holds for each in self.changes):
            return ExitCode.FAILED
        return ExitCode.UNKNOWN if self.damaged else ExitCode.OK

    def as_data(self) -> dict[str, Any]:
        """Return it as JSON has it; docs/history.md describes it."""
        code = self.exit_code()
        started = datetime.fromtimestamp(self.made, UTC).isoformat(timespec="seconds")
        return {
            "schema": SCHEMA,
            "rdmaprov": rdmaprov.__version__,
            "verb": "history",
            "site": str(self.site),
            "limit": None,
            "started": started,
            "seconds": round(self.took_s, 1),
            "verdict": code.name.lower(),
            "exit_code": int(code),
            "runs": [each.as_data() for each in self.runs],
            "left_out": [{"run": each.run, "why": each.why} for each in self.unread],
            "changes": [each.as_data() for each in self.changes],
            "events": [each.as_data() for each in self.events],
            "troubles": [each.as_data() for each in self.troubles],
            "fleet": [each.as_data() for each in self.fleet],
            "certificate_valid_until": self.newest.valid_until,
            "series": self.tracks,
            "nodes": self.nodes,
        }


def read_history(site: Path, runs: Path) -> History:
    """Return a site's history from a directory's runs; raise UsageError if it has none there."""
    began = time.time()
    with Index(runs).open() as connection:
        found = site_runs.site_runs(connection, site)
        moved, fleet, count = _follow(connection, found)
        events = all_events(connection, found)
        changes.add_events(moved, events, found)
        return History(
            site,
            began,
            time.time() - began,
            found,
            site_runs.unread_runs(connection),
            moved,
            events,
            seen_troubles(connection, found),
            node_standing(connection, found),
            fleet,
            newest_of(connection, found),
            count,
        )


def _follow(
    connection: sqlite3.Connection, runs: list[SiteRun]
) -> tuple[list[SeriesChange], list[Track], int]:
    """Return the changes of all series, the fleet's series, and how many exist."""
    found: list[SeriesChange] = []
    fleet: dict[tuple[object, ...], Track] = {}
    count = 0
    for track in changes.tracks(connection, runs):
        count += 1
        found += changes.changes_of(track)
        own = track.series
        kind = own.stage, own.what, own.rail, own.scope
        if not own.node and (kind not in fleet or fleet[kind].series.bytes < own.bytes):
            fleet[kind] = track
    return changes.gather(found), list(fleet.values()), count
