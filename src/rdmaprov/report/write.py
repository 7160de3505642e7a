"""Write the page of a run beside its results.json."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rdmaprov.problem import printable
from rdmaprov.report import read
from rdmaprov.runs.files import write_whole

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
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        what = f"{type(error).__name__}: {error}"
        raise read.damage_error(directory / "results.json", what) from error
    path = directory / NAME
    write_whole(path, text)  # only its user can read a run, and so all of its files
    return path


def report_page(directory: Path, on_error: Callable[[OSError], object] = repr) -> str:
    """Write a run's page; return the line that names it, or says why there is none.

    It never raises: the run has ended, and its verdict stands.

    Args:
        on_error: is given the error if the page cannot be written.
    """
    try:
        return f"report: {write_page(directory)}"
    except Exception as error:
        if isinstance(error, OSError):
            on_error(error)
        why = printable(_reason(error))
        return f"report: not written: {why}. Fix this, then run: rdmaprov report {directory}"


def _reason(error: Exception) -> str:
    if isinstance(error, ImportError):
        return f"the Python package {error.name or error} cannot be imported"
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else str(error)
    return str(error)
