"""What changed from run to run: versions, hardware, the site's commit, settings."""

import re
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from rdmaprov.history.certificate_facts import ISSUED, UNTIL
from rdmaprov.history.site_runs import SiteRun
from rdmaprov.runs.groups import fold_names, label

_COMMIT = re.compile(r"^[0-9a-f]{40,64}")
_EACH_TIME = (ISSUED, UNTIL)  # differ in every run that has them


@dataclass(frozen=True)
class Event:
    """One thing that changed."""

    run: SiteRun
    key: str
    was: str
    now: str
    nodes: tuple[str, ...]  # on which; none if it is about the site or rdmaprov

    def text(self, total: int) -> str:
        """Return it as one line, of a fleet of some nodes."""
        where = f" on {label(self.nodes, total)}" if self.nodes else ""
        return f"{self.key} {short(self.was)} → {short(self.now)}{where}"

    def as_data(self) -> dict[str, object]:
        """Return it as JSON has it."""
        return {
            "run": self.run.name,
            "what": self.key,
            "was": self.was,
            "now": self.now,
            "nodes": list(self.nodes),
        }


def short(value: str) -> str:
    """Return a value as it is shown: of a commit the first digits, as git shows it.

    >>> short("0123456789abcdef0123456789abcdef01234567+changed"), short("570.86.15"), short("")
    ('0123456789ab+changed', '570.86.15', 'none')
    """
    return _COMMIT.sub(lambda found: found[0][:12], value) or "none"


def all_events(connection: sqlite3.Connection, runs: Sequence[SiteRun]) -> list[Event]:
    """Return what changed over all runs, in the order of time."""
    last: dict[tuple[str, str], str] = {}
    found = []
    for run in runs:
        nodes: dict[tuple[str, str, str], list[str]] = {}
        for node, key, value in _facts(connection, run):
            was = last.get((node, key))
            if was is not None and was != value:
                nodes.setdefault((key, was, value), []).append(node)
            last[node, key] = value
        nodes |= _settings(connection, run)
        found += [Event(run, *what, tuple(filter(None, own))) for what, own in nodes.items()]
    return found


def _facts(connection: sqlite3.Connection, run: SiteRun) -> list[tuple[str, str, str]]:
    """Return the facts of a run, each once: its certificate may repeat what its results have."""
    rows = connection.execute("SELECT node, key, value FROM fact WHERE run = ?", (run.id,))
    once = {(node, key): value for node, key, value in rows if key not in _EACH_TIME}
    return [(node, key, value) for (node, key), value in once.items()]


def settings_between(
    connection: sqlite3.Connection, runs: Sequence[SiteRun], after: float, until: float
) -> list[Event]:
    """Return the settings that runs of `apply` changed in a time, in seconds since 1970."""
    return [
        Event(run, *what, tuple(nodes))
        for run in runs
        if after < run.started <= until
        for what, nodes in _settings(connection, run).items()
    ]


def _settings(
    connection: sqlite3.Connection, run: SiteRun
) -> dict[tuple[str, str, str], list[str]]:
    """Return the nodes of each setting that a run changed; its devices are on one line."""
    nodes: dict[tuple[str, str, str, str], dict[str, None]] = {}
    devices: dict[tuple[str, str, str, str], set[str]] = {}
    rows = connection.execute(
        "SELECT node, role, device, setting, seen, wanted FROM setting WHERE run = ?", (run.id,)
    )
    for node, role, device, *rest in rows:
        own = role, rest[0], rest[1], rest[2]
        nodes.setdefault(own, {})[node] = None
        devices.setdefault(own, set()).update({device} - {""})
    found: dict[tuple[str, str, str], list[str]] = {}
    for (role, setting, seen, wanted), names in nodes.items():
        where = fold_names(devices[role, setting, seen, wanted])
        what = " ".join(filter(None, (f"{run.verb}, {role}:", where, setting)))
        found[what, seen, wanted] = list(names)
    return found
