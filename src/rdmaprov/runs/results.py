"""results.json of a run, as any verb of any version wrote it: read once, for all who need it."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

from rdmaprov.runs.envelope import SCHEMA

RESULTS = "results.json"
# The verbs that keep a run.
VERBS = ("plan", "apply", "validate", "accept", "subnet", "watch", "tune")
# Our choice: an acceptance of 1,024 nodes with all paths writes some 20 MB.
MOST_BYTES = 1 << 28


class NotRead(Exception):
    """A run that cannot be read; the message says why, on one line.

    Attributes:
        is_newer: whether a newer rdmaprov wrote it.

    """

    def __init__(self, why: str, *, is_newer: bool = False) -> None:
        super().__init__(why)
        self.is_newer = is_newer


def load_results(path: Path) -> dict[str, Any]:
    """Return what a results.json has; its schema is checked, and nothing else.

    Raises:
        NotRead: it is damaged, incomplete, too large, or of a newer version.
        FileNotFoundError: there is none: the run was killed, or is still running.

    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # a pipe would be waited for
            raise NotRead(f"{path.name} is no file")
        with path.open("rb") as file:
            text = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise NotRead(f"{path.name}: {error.strerror}") from error
    if len(text) > MOST_BYTES:
        raise NotRead(f"{path.name} exceeds {MOST_BYTES >> 20} MiB")
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NotRead(f"{path.name} is incomplete or no JSON") from error
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
