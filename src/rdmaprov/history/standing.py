"""The newest proofs of each node of a site."""

import sqlite3
from collections.abc import Sequence

from rdmaprov.history.digest import NOT_RUN
from rdmaprov.history.site_runs import SiteRun

# States of a node that show that it is as the site says; of `apply`, its survey read it last.
GOOD = {"passed", "unchanged", "changed"}


def node_standing(
    connection: sqlite3.Connection, runs: Sequence[SiteRun]
) -> dict[str, dict[str, dict[str, object]]]:
    """Return by node and verb its newest state, when that was, and when it was last good.

    A run that asked a part and found nothing says nothing.

    Times are in seconds since 1970; `good` is None if it never was. A node that the newest run
    without a limit lacks, and none after it has, is no node of the site any more.
    """
    found: dict[str, dict[str, dict[str, object]]] = {}
    there: set[str] = set()
    for run in runs:
        rows = connection.execute("SELECT node, state FROM state WHERE run = ?", (run.id,))
        there = there if run.scope else set()
        for node, state in rows:
            there.add(node)
            own = found.setdefault(node, {}).setdefault(run.verb, {"first": run.name, "good": None})
            if state == NOT_RUN and "state" in own:
                continue  # the last word is an earlier one
            ended = run.started + run.seconds
            own |= {"state": state, "run": run.name, "time": ended}
            if state in GOOD:
                own["good"] = ended
    return {node: own for node, own in found.items() if node in there}
