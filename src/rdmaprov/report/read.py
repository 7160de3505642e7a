"""Find the runs in runs/ and read their results."""

import re
from pathlib import Path
from typing import Any

from rdmaprov.errors import UnreachableError, UsageError
from rdmaprov.problem import printable
from rdmaprov.runs.results import RESULTS, VERBS, NotRead, load_results

# As runs.directory names them.
_NAME = re.compile(rf"(?P<time>\d{{8}}-\d{{6}})-(?P<verb>{'|'.join(VERBS)})(?:-(?P<n>\d+))?")
_HEAD = {"verb": str, "site": str, "started": str, "verdict": str, "exit_code": int, "nodes": dict}


class RunUnknown(UnreachableError):
    """The results of a run cannot be read."""


def find_run(named: str, runs: Path) -> Path:
    """Return the directory of a run.

    Args:
        named: its path, or its name in `runs`; empty for the newest.

    Raises:
        UsageError: there is no such run.
    """
    kept = newest_first(runs)
    if not named:
        if not kept:
            raise UsageError(
                f"{runs}: there is no run",
                "Run first: rdmaprov validate SITE; or pass the directory of a run",
            )
        return kept[0]
    path = Path(named)
    path = path.parent if path.name in {"results.json", "report.html"} else path
    for candidate in (path, runs / path):
        if candidate.is_dir():
            return candidate
    hint = (
        f"The newest is {kept[0]}" if kept else "Pass the directory of a run, such as runs/…-apply"
    )
    raise UsageError(printable(f"{named}: there is no such run"), hint)


def newest_first(runs: Path) -> list[Path]:
    """Return the directories of all runs, complete or not."""

    def age(path: Path) -> tuple[str, int, str]:
        parts = _NAME.fullmatch(path.name)
        assert parts is not None  # noqa: S101 - filtered below
        return parts["time"], int(parts["n"] or 1), path.name

    kept = [path for path in runs.glob("*-*-*") if _NAME.fullmatch(path.name) and path.is_dir()]
    return sorted(kept, key=age, reverse=True)


def read_results(directory: Path) -> dict[str, Any]:
    """Return a run's results.json, whose head is checked; RunUnknown: missing, damaged or newer."""
    path = directory / RESULTS
    try:
        data = load_results(path)
    except FileNotFoundError:
        raise RunUnknown(
            f"{path} is missing: the run was killed, or is still running", _hint(directory)
        ) from None
    except NotRead as error:
        newer = "Update rdmaprov, then run the same command again"
        hint = newer if error.is_newer else _hint(directory)
        raise RunUnknown(printable(f"{directory}/{error}"), hint) from error
    for name, kind in _HEAD.items():
        if not isinstance(data.get(name), kind):
            raise damage_error(path, name)
    if data["verb"] not in VERBS:
        raise damage_error(path, "verb")
    return data


def damage_error(path: Path, what: str) -> RunUnknown:
    """Return the error for a results.json that does not match docs/results.schema.json."""
    message = printable(f"{path} is not a valid result of a run: {what} is missing or wrong")
    return RunUnknown(message, _hint(path.parent))


def _hint(directory: Path) -> str:
    """Return what to do about a run that cannot be read; name the newest complete one."""
    for other in newest_first(directory.parent):
        if other != directory and (other / "results.json").is_file():
            return f"Run the verb again, or show another run: rdmaprov report {other}"
    return "Run the verb again"
