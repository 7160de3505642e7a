"""What `rdmaprov history` and `rdmaprov compare` do; apart from their options."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import IO, Any

from rdmaprov.cli import session
from rdmaprov.cli.pages import page_text
from rdmaprov.cli.publish import publish, publish_last
from rdmaprov.errors import UsageError
from rdmaprov.history import compare_view
from rdmaprov.history.answer import read_history
from rdmaprov.history.compare import read_pair
from rdmaprov.history.lines import history_lines
from rdmaprov.problem import printable
from rdmaprov.report.model import View
from rdmaprov.report.read import find_run
from rdmaprov.runs.directory import RUNS
from rdmaprov.runs.files import not_written, write_whole
from rdmaprov.runs.masks import Mask
from rdmaprov.terminal import Line


def show_history(site: Path, json_file: IO[str] | None, html_file: Path | None) -> int:
    """Show the history of a site; return the exit code."""
    found = read_history(site, Path(RUNS))

    def view() -> View:
        from rdmaprov.history import page

        return page.view(found)

    again = f"rdmaprov history {site} --html {html_file}"
    missed: dict[Path, OSError] = {}
    publish_last(
        partial(publish, found, Path(RUNS)),
        lambda line: session.screen_for(json_file, Mask(())).show(Line(printable(line))),
    )
    show(history_lines(found), found.as_data(), json_file, html_file, view, again, missed)
    return found.exit_code()


def show_comparison(
    first: str, second: str, json_file: IO[str] | None, html_file: Path | None
) -> int:
    """Show what differs between two runs; return the exit code."""
    began = time.monotonic()
    runs = Path(RUNS)
    for named in (first, second):
        if not named:
            raise UsageError("a RUN is empty", "Run: rdmaprov compare RUN RUN")
    found = read_pair(find_run(first, runs), find_run(second, runs), runs)
    data = compare_view.document(found, time.monotonic() - began)
    again = f"rdmaprov compare {first} {second} --html {html_file}"
    lines = compare_view.lines(found)
    show(lines, data, json_file, html_file, lambda: compare_view.view(found), again, {})
    return found.exit_code()


def show(
    lines: Iterable[Line],
    data: Mapping[str, Any],
    json_file: IO[str] | None,
    html_file: Path | None,
    view: Callable[[], View],
    again: str,
    missed: dict[Path, OSError],
) -> None:
    """Print lines, and write the same as JSON and as a page, where that was asked for.

    Raises:
        NotWritten: a file cannot be written.
        PageNotMade: a library is missing.

    """
    lines = list(lines)
    if html_file is not None:
        try:
            write_whole(html_file, page_text(data, view(), again))
            lines.append(Line(f"page: {html_file}"))
        except OSError as error:
            missed[html_file] = error
    if json_file is not None:
        text = json.dumps(data, indent=2, ensure_ascii=False) + "\n"
        session.write_json(missed, json_file, text)
    shown = session.screen_for(json_file, Mask(()))
    for line in lines:
        shown.show(Line(printable(line.text), line.style))
    if missed:
        raise not_written(missed, "run the same command again.")
