"""results.json of a run, as any verb of any version wrote it: read once, for all who need it."""

from pathlib import Path
from typing import Any

from rdmaprov.boundary import OddAnswer, parse_file
from rdmaprov.runs.envelope import SCHEMA
from rdmaprov.runs.files import read_whole

RESULTS = "results.json"
# In logs/, each test of pairs and groups: who measured together, when, and what they reached.
TESTS = "tests.jsonl"
# Behind a node's name, ends what a number is of that it reached by itself.
ALONE = " alone"
# How many runs to look through for what the newest ones tell. Our choice: of a large fleet, each
# takes some 0.3 s.
MOST_READ = 20
# The verbs that keep a run.
VERBS = ("plan", "apply", "revert", "validate", "accept", "subnet", "watch", "tune")
# Our choice: an acceptance of 1,024 nodes with all paths writes some 20 MB.
MOST_BYTES = 1 << 26
_MOST_PARTS = 1 << 22


class NotRead(Exception):
    """A run that cannot be read; the message says why, on one line."""

    def __init__(self, why: str, *, is_newer: bool = False) -> None:
        super().__init__(why)
        self.is_newer = is_newer


def read_json(path: Path) -> Any:  # noqa: ANN401 - whatever JSON can be
    """Return the JSON of a file of a run, which may be a stranger's.

    Raises:
        OSError: it cannot be read, is no file, or too large.
        ValueError: it is not JSON, or has too many parts; OddAnswer, which says why.
    """
    return parse_file(read_whole(path, MOST_BYTES), _MOST_PARTS)


def load_results(path: Path) -> dict[str, Any]:
    """Return what a results.json has; its schema is checked, and nothing else.

    Raises:
        NotRead: it is damaged, incomplete, too large, or of a newer version.
        FileNotFoundError: there is none: the run was killed, or is still running.
    """
    try:
        data = read_json(path)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise NotRead(f"{path.name}: {error.strerror}") from error
    except OddAnswer as error:
        why = str(error).removeprefix("its answer ").replace("is not", "is incomplete or no")
        raise NotRead(f"{path.name} {why}") from error
    if not isinstance(data, dict):
        raise NotRead(f"{path.name} is not the result of a run")
    schema = data.get("schema")
    if type(schema) is int and schema > SCHEMA:
        raise NotRead(
            f"{path.name} has schema {schema}, this rdmaprov reads {SCHEMA}", is_newer=True
        )
    if schema != SCHEMA:
        raise NotRead(f"{path.name}: schema is missing or wrong")
    return data


def results_of(path: Path, site: Path) -> dict[str, Any] | None:
    """Return what a results.json has; None if it cannot be read, or is of another site.

    A run can have been interrupted, be of another version, or somebody's work.
    """
    try:
        data = load_results(path)
        same = Path(data["site"]).resolve() == site.resolve()
    except (NotRead, OSError, KeyError, TypeError, ValueError):
        return None
    return data if same and isinstance(data.get("nodes"), dict) else None


def newest_paths(runs: Path, *verbs: str) -> list[Path]:
    """Return the results.json of all runs of some verbs, the newest first, by the runs' names."""
    paths = [path for verb in verbs for path in runs.glob(f"*-{verb}*/{RESULTS}")]
    return sorted(paths, key=lambda path: path.parent.name, reverse=True)
