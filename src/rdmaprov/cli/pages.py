"""Pages that a verb writes to a file of the user's, and not into a run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rdmaprov.cli.report import PageNotMade
from rdmaprov.problem import printable
from rdmaprov.report.model import View
from rdmaprov.runs.files import not_written, write_whole


def page_text(data: Mapping[str, Any], view: View, again: str) -> str:
    """Return a page.

    Args:
        data: the head, as results.json has it.
        view: what it shows.
        again: the command that makes it again.

    Raises:
        PageNotMade: a library is missing.

    """
    try:
        from rdmaprov.report.page import render

        head = {**data, "site": printable(str(data["site"]))}
        return render(head, view, printable(again))
    except ImportError as error:
        raise PageNotMade(
            f"the Python package {error.name} cannot be imported: {error}",
            "Install rdmaprov again with its dependencies: pip install rdmaprov",
        ) from error


def write_page(file: Path, text: str) -> None:
    """Write a page whole.

    Raises:
        NotWritten: it cannot be written.

    """
    try:
        write_whole(file, text)
    except OSError as error:
        raise not_written({file: error}, "run the same command again.") from error
