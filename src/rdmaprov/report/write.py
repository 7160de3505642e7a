"""Write the page of a run beside its results.json."""

from __future__ import annotations

import os
from pathlib import Path

from rdmaprov.problem import printable
from rdmaprov.report import read

NAME = "report.html"


def write_page(directory: Path) -> Path:
    """Write a run's page completely or not at all; return its path.

    Raises:
        RunUnknown: the run's results.json cannot be read.
        ImportError: a library is missing.
        OSError: the page cannot be written.

    """
    from rdmaprov.report.page import html

    data = read.read_results(directory)
    try:
        text = html(data, directory.resolve().name)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        what = f"{type(error).__name__}: {error}"
        raise read.damage_error(directory / "results.json", what) from error
    path = directory / NAME
    unfinished = path.with_suffix(".html.new")
    try:
        # Only its user can read a run, and so all of its files.
        file = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(file, "w", encoding="utf-8", errors="backslashreplace") as opened:
            opened.write(text)
        unfinished.replace(path)
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise
    return path


def report_page(directory: Path) -> str:
    """Write a run's page; return the line that names it, or says why there is none.

    It never raises: the run has ended, and its verdict stands.
    """
    try:
        return f"report: {write_page(directory)}"
    except Exception as error:
        why = printable(_reason(error))
        return f"report: not written: {why}. Fix this, then run: rdmaprov report {directory}"


def _reason(error: Exception) -> str:
    if isinstance(error, ImportError):
        return f"the Python package {error.name or error} cannot be imported"
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else str(error)
    return str(error)
