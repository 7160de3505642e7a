"""What the newest runs of a site say: stages, findings, rails, and the certificate."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from rdmaprov.history.certificate_facts import UNTIL
from rdmaprov.history.from_accept import SENT
from rdmaprov.history.site_runs import SiteRun


@dataclass(frozen=True)
class Newest:
    """What the newest runs of a site say.

    Args:
        runs: the newest run of each verb.
        troubles: by verb, how many checks and findings its newest run has.
        stages: the state of each stage of the newest acceptance.
        rails: GB/s that each rail of each node sent in it, while busy.
        valid_until: of the newest certificate, in seconds since 1970; None without one.

    """

    runs: dict[str, SiteRun]
    troubles: dict[str, int] = field(default_factory=dict)
    stages: dict[str, str] = field(default_factory=dict)
    rails: dict[tuple[str, int], float] = field(default_factory=dict)
    valid_until: float | None = None


def newest_of(connection: sqlite3.Connection, runs: Sequence[SiteRun]) -> Newest:
    """Return what the newest runs of a site say.

    Args:
        connection: to the index.
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
