"""The runs that a dossier is made of, and a field of one: value, run, time, command."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from rdmaprov.errors import UsageError
from rdmaprov.problem import printable
from rdmaprov.report.read import find_run, read_results
from rdmaprov.runs.files import read_whole
from rdmaprov.runs.results import MOST_BYTES, RESULTS, TESTS, newest_paths, results_of
from rdmaprov.words import some

NOT_READ = "not read"
_VERBS = ("accept", "validate", "watch", "subnet")
_MOST_RUNS = 10  # before the run, and after it: a large fleet's take 0.3 s each; our choice
Row = dict[str, Any]


@dataclass(frozen=True)
class KeptRun:
    """A run of a site, with its results."""

    directory: Path
    data: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Return the name of its directory."""
        return self.directory.name

    @property
    def origin(self) -> Row:
        """Return what each field of the run has: run, time and command."""
        limit = f" --limit {self.data['limit']}" if self.data.get("limit") else ""
        command = f"rdmaprov {self.data['verb']} SITE{limit}"
        return {"run": self.name, "time": self.data["started"], "command": command}

    @cached_property
    def sha256(self) -> str:
        """Return the digest of its results."""
        return hashlib.sha256(read_whole(self.directory / RESULTS, MOST_BYTES)).hexdigest()

    @cached_property
    def tests(self) -> tuple[dict[str, str], list[Row]]:
        """Return the leaf of each node, and what pairs and groups reached; nothing if not kept."""
        try:
            text = read_whole(self.directory / "logs" / TESTS, MOST_BYTES).decode()
            first, *rows = map(json.loads, text.splitlines())
            return dict(first["leaves"]), [row for row in rows if row["nodes"]]
        except (OSError, ValueError, KeyError, TypeError):
            return {}, []

    def field(self, what: str, value: object, read: str = "", why: str = "") -> Row:
        """Return a field; one without a value says that nobody read it, and why."""
        origin = {**self.origin, **({"command": read} if read else {})}
        origin |= {"why": why} if why and not value else {}
        return {"what": what, "value": value or NOT_READ, **origin}


def not_read(what: str, why: str) -> Row:
    """Return a field that no kept run has."""
    return {"what": what, "value": NOT_READ, "run": "", "time": "", "command": why}


def find(named: str, node: str, runs: Path) -> tuple[KeptRun, list[KeptRun]]:
    """Return the run that a user named, and those of its site around it, the oldest first.

    Raises:
        UsageError: there is no such run, or it does not have the node.
        RunUnknown: its results cannot be read.
    """
    directory = find_run(named, runs).resolve()
    run = KeptRun(directory, read_results(directory))
    if node not in run.data["nodes"]:
        there = some(run.data["nodes"], 3) or "no node"
        raise UsageError(printable(f"{node}: not in {run.name}"), printable(f"It has {there}"))
    before, after = list[Path](), list[Path]()
    for path in newest_paths(directory.parent, *_VERBS):
        if path.parent.name != run.name:
            (before if path.parent.name < run.name else after).append(path)
    near = [*before[:_MOST_RUNS][::-1], *after[::-1][:_MOST_RUNS]]
    found = [run, *_of_site(near, Path(run.data["site"]))]
    return run, sorted(found, key=lambda each: each.data["started"])


def _of_site(paths: list[Path], site: Path) -> Iterator[KeptRun]:
    for path in paths:
        data = results_of(path, site)
        if data is not None and isinstance(data.get("started"), str):
            yield KeptRun(path.parent, data)
