"""Runs that are kept, and what each of them says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from rdmaprov.errors import UnreachableError, UsageError
from rdmaprov.problem import printable
from rdmaprov.runs.envelope import SCHEMA

# As apply.rundir names them.
_NAME = re.compile(r"(?P<time>\d{8}-\d{6})-(?P<verb>plan|apply|validate|accept)(?:-(?P<n>\d+))?")
_HEAD = {"verb": str, "site": str, "started": str, "verdict": str, "exit_code": int, "nodes": dict}


class RunUnknown(UnreachableError):
    """What a run found cannot be read."""


def find_run(named: str, runs: Path) -> Path:
    """Return the directory of a run.

    Args:
        named: its path, or its name below `runs`; empty for the newest.
        runs: where runs are kept.

    Raises:
        UsageError: there is no such run.

    """
    kept = newest_first(runs)
    if not named:
        if not kept:
            raise UsageError(
                f"{runs}: there is no run", "Run: rdmaprov validate SITE; or name a run's directory"
            )
        return kept[0]
    path = Path(named)
    path = path.parent if path.name in {"results.json", "report.html"} else path
    for candidate in (path, runs / path):
        if candidate.is_dir():
            return candidate
    hint = f"The newest is {kept[0]}" if kept else "Name the directory of one, such as runs/…-apply"
    raise UsageError(printable(f"{named}: there is no such run"), hint)


def newest_first(runs: Path) -> list[Path]:
    """Return the directories of all runs, also of those that were cut."""

    def age(path: Path) -> tuple[str, int, str]:
        parts = _NAME.fullmatch(path.name)
        assert parts is not None  # noqa: S101 - the others were left out
        return parts["time"], int(parts["n"] or 1), path.name

    kept = [path for path in runs.glob("*-*-*") if _NAME.fullmatch(path.name) and path.is_dir()]
    return sorted(kept, key=age, reverse=True)


def read_results(directory: Path) -> dict[str, Any]:
    """Return the results.json of a run, with the head that every verb's has.

    Raises:
        RunUnknown: it is missing, cut, damaged, or of a newer schema.

    """
    path = directory / "results.json"
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RunUnknown(
            f"{path} is missing: the run was cut before its end, or goes on",
            _hint(directory),
        ) from None
    except (ValueError, OSError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not whole"
        raise RunUnknown(f"{path} cannot be read: {why}", _hint(directory)) from error
    schema = data.get("schema") if isinstance(data, dict) else None
    if isinstance(schema, int) and schema > SCHEMA:
        raise RunUnknown(
            f"{path} is of schema {schema}, wanted {SCHEMA}: a newer rdmaprov wrote it",
            "Install the newer rdmaprov, and run it again there",
        )
    for name, kind in _HEAD.items():
        if schema != SCHEMA or not isinstance(data.get(name), kind):
            raise damage_error(path, name if schema == SCHEMA else "schema")
    return dict(data)


def damage_error(path: Path, what: str) -> RunUnknown:
    """Return the error that a results.json is not as docs/results.schema.json says."""
    message = printable(f"{path} is no whole result of a run: {what} is missing or wrong")
    return RunUnknown(message, _hint(path.parent))


def _hint(directory: Path) -> str:
    """Return what to do about a run that cannot be read: name the newest that ended."""
    for other in newest_first(directory.parent):
        if other != directory and (other / "results.json").is_file():
            return f"Run the verb again, or look at another run: rdmaprov report {other}"
    return "Run the verb again"
