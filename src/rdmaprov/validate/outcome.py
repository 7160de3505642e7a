"""What a check found: passed, failed, skipped, or an error, which is "could not tell"."""

from __future__ import annotations

from pathlib import Path

import pytest
import testinfra
from _pytest._code.code import ReprEntryNative, ReprExceptionInfo, ReprFileLocation, ReprTraceback

_TESTINFRA = str(Path(testinfra.__file__).parent)
_FAILURES = (AssertionError, pytest.fail.Exception)


def where(found: pytest.ExceptionInfo[BaseException]) -> tuple[str, int]:
    """Return the file and the line that raised an exception."""
    trace = found.tb
    while trace.tb_next is not None:
        trace = trace.tb_next
    return trace.tb_frame.f_code.co_filename, trace.tb_lineno


def is_error(found: pytest.ExceptionInfo[BaseException]) -> bool:
    """Return whether an exception says that nothing is known, and not that something is wrong.

    An assertion of testinfra's own is one about a command that could not be run.
    """
    return not isinstance(found.value, _FAILURES) or where(found)[0].startswith(_TESTINFRA)


def first_line(found: pytest.ExceptionInfo[BaseException]) -> str:
    """Return what an exception says, on one line.

    The assertion's own message comes first in it; what pytest adds about the values follows.
    """
    lines = str(found.value).strip().splitlines()
    text = lines[0] if lines else ""
    known = isinstance(found.value, _FAILURES) or hasattr(found.value, "hint")
    return text if known and text else f"{type(found.value).__name__}: {text}".rstrip(": ")


def shown(found: pytest.ExceptionInfo[BaseException]) -> ReprExceptionInfo:
    """Return an exception as one line for pytest's report and for its summary."""
    line = first_line(found)
    entry = ReprEntryNative([line + "\n"])
    crash = ReprFileLocation(*where(found), line)
    return ReprExceptionInfo(ReprTraceback([entry], None, "native"), crash)


def wants_one_line(config: pytest.Config) -> bool:
    """Return whether the user left it to us how a failure is shown."""
    return config.getoption("tbstyle") == "auto" and config.get_verbosity() < 2


def classify(report: pytest.TestReport, found: pytest.ExceptionInfo[BaseException] | None) -> None:
    """Have a report of a test's call say `error` where that is what was found."""
    if report.when == "call" and report.failed and found is not None and is_error(found):
        report.when = "setup"  # what pytest calls an error
