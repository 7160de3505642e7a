"""What `rdmaprov history` and `rdmaprov compare` do; apart from their options."""

import json
import time
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import IO, Any

from rdmaprov.cli import session
from rdmaprov.cli.publish import publish, publish_last
from rdmaprov.errors import UsageError
from rdmaprov.history import compare_view
from rdmaprov.history.answer import read_history
from rdmaprov.history.compare import read_pair
from rdmaprov.history.lines import history_lines
from rdmaprov.problem import printable
from rdmaprov.report.read import find_run
from rdmaprov.runs.directory import runs_directory
from rdmaprov.runs.files import not_written
from rdmaprov.runs.masks import Mask
from rdmaprov.terminal import Line


def show_history(site: Path, json_file: IO[str] | None) -> int:
    """Show the history of a site; return the exit code."""
    found = read_history(site, runs_directory())
    missed: dict[Path, OSError] = {}
    publish_last(
        partial(publish, found, runs_directory()),
        lambda line: session.screen_for(json_file, Mask(())).show(Line(printable(line))),
    )
    _show(history_lines(found), found.as_data(), json_file, missed)
    return found.exit_code()


def show_comparison(first: str, second: str, json_file: IO[str] | None) -> int:
    """Show what differs between two runs; return the exit code."""
    began = time.monotonic()
    runs = runs_directory()
    for named in (first, second):
        if not named:
            raise UsageError("a RUN is empty", "Run: rdmaprov compare RUN RUN")
    found = read_pair(find_run(first, runs), find_run(second, runs), runs)
    data = compare_view.document(found, time.monotonic() - began)
    _show(compare_view.lines(found), data, json_file, {})
    return found.exit_code()


def _show(
    lines: Iterable[Line],
    data: Mapping[str, Any],
    json_file: IO[str] | None,
    missed: dict[Path, OSError],
) -> None:
    """Print lines, and write the same as JSON if that was asked for."""
    if json_file is not None:
        text = json.dumps(data, indent=2, ensure_ascii=False) + "\n"
        session.write_json(missed, json_file, text)
    shown = session.screen_for(json_file, Mask(()))
    for line in lines:
        shown.show(Line(printable(line.text), line.style))
    if missed:
        raise not_written(missed, "run the same command again.")
