"""What a bench measured, a line of JSON each: a table that takes hours can be made in pieces."""

import json
from pathlib import Path
from typing import Any


def read_rows(file: Path | None) -> list[Any]:
    """Return the rows of a file; none without one. A line that an interruption cut is left out."""
    found = []
    for line in file.read_text(encoding="utf-8").splitlines() if file and file.exists() else ():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def add_row(file: Path | None, row: Any) -> None:  # noqa: ANN401 - as json.dumps takes it
    """Add a row to a file, if there is one; behind a line that was cut, it is one of its own."""
    if file:
        with file.open("a", encoding="utf-8") as stream:
            stream.write(f"\n{json.dumps(row)}\n")
