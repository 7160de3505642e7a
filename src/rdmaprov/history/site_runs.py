"""The runs of one site, in the order of time."""

import sqlite3
from dataclasses import dataclass
from pathlib import Path

from rdmaprov.errors import UsageError
from rdmaprov.exit_codes import ExitCode
from rdmaprov.history.index import Unread
from rdmaprov.problem import printable

_CODES = {int(code): code.name.lower() for code in ExitCode}
KILLED = "no results"  # as a reason to leave a run out begins if it was killed


@dataclass(frozen=True, slots=True)
class SiteRun:
    """One run of a site; `scope` is Ansible's pattern, `started` is in seconds since 1970."""

    id: int
    name: str
    verb: str
    scope: str
    started: float
    seconds: float
    exit_code: int

    @property
    def verdict(self) -> str:
        """Return the name of the exit code; `unknown` if it is none of ours."""
        return _CODES.get(self.exit_code, "unknown")

    def as_data(self) -> dict[str, object]:
        """Return it as JSON has it."""
        return {
            "name": self.name,
            "verb": self.verb,
            "limit": self.scope or None,
            "started": self.started,
            "seconds": self.seconds,
            "verdict": self.verdict,
            "exit_code": self.exit_code,
        }


def site_runs(connection: sqlite3.Connection, site: Path) -> list[SiteRun]:
    """Return all runs of a site that can be read, the oldest first.

    Raises:
        UsageError: there is none; names the sites that have some.
    """
    named = [row[0] for row in connection.execute("SELECT DISTINCT site FROM run WHERE site > ''")]
    wanted = site.resolve()
    same = [each for each in named if Path(each).resolve() == wanted]
    found = [
        SiteRun(*row)
        for each in same
        for row in connection.execute(
            "SELECT id, name, verb, scope, started, seconds, exit_code FROM run WHERE site = ?",
            (each,),
        )
    ]
    if not found:
        known = ", ".join(sorted(named)[:4])
        hint = f"Sites with runs: {known}" if known else f"Run first: rdmaprov validate {site}"
        raise UsageError(printable(f"runs/ has no run of {site}"), hint)
    return sorted(found, key=lambda run: (run.started, run.name))


def unread_runs(connection: sqlite3.Connection) -> list[Unread]:
    """Return the runs of all sites that cannot be read: nobody knows whose they are."""
    rows = connection.execute("SELECT name, problem FROM run WHERE problem > '' ORDER BY name")
    return [Unread(*row) for row in rows]
