"""What a check found: passed, failed, skipped, or unknown, which pytest calls an error."""

from pathlib import Path

import pytest
import testinfra
from _pytest._code.code import ReprEntryNative, ReprExceptionInfo, ReprFileLocation, ReprTraceback
from testinfra.backend.base import CommandResult

from rdmaprov.probe.errors import NodeUnreachable

_TESTINFRA = str(Path(testinfra.__file__).parent)
_FAILURES = (AssertionError, pytest.fail.Exception)
_UNREACHABLE = "rdmaprov_unreachable"
FINDING = "rdmaprov_finding"


def where(found: pytest.ExceptionInfo[BaseException]) -> tuple[str, int]:
    """Return the file and the line that raised an exception."""
    trace = found.tb
    while trace.tb_next is not None:
        trace = trace.tb_next
    return trace.tb_frame.f_code.co_filename, trace.tb_lineno


def is_error(found: pytest.ExceptionInfo[BaseException]) -> bool:
    """Return whether an exception leaves the setting unknown; else it was seen to be wrong.

    An assertion of testinfra's own is about a command that could not be run.
    """
    return not isinstance(found.value, _FAILURES) or where(found)[0].startswith(_TESTINFRA)


def first_line(found: pytest.ExceptionInfo[BaseException]) -> str:
    """Return an exception's message on one line, without what pytest adds about values."""
    result = next(iter(found.value.args), None)
    if isinstance(result, CommandResult):  # of testinfra's own ssh, where it cannot connect
        return (result.stderr.strip() or f"exit code {result.rc}").splitlines()[-1]
    lines = str(found.value).strip().splitlines()
    text = lines[0] if lines else ""
    known = isinstance(found.value, _FAILURES) or hasattr(found.value, "hint")
    return text if known and text else f"{type(found.value).__name__}: {text}".rstrip(": ")


def one_line(found: pytest.ExceptionInfo[BaseException], line: str = "") -> ReprExceptionInfo:
    """Return an exception as one line for pytest's report and for its summary.

    Args:
        line: what to say; empty for its own message.
    """
    line = line or first_line(found)
    entry = ReprEntryNative([line + "\n"])
    crash = ReprFileLocation(*where(found), line)
    return ReprExceptionInfo(ReprTraceback([entry], None, "native"), crash)


def wants_one_line(config: pytest.Config) -> bool:
    """Return whether no option of pytest's asks for another form of failures."""
    return config.getoption("tbstyle") == "auto" and config.get_verbosity() < 2


def classify(report: pytest.TestReport, found: pytest.ExceptionInfo[BaseException] | None) -> None:
    """Make the report of a test's call an error if its setting is unknown; mark lost nodes."""
    vars(report)[FINDING] = getattr(found and found.value, "finding", {})
    if report.when == "call" and report.failed and found is not None and is_error(found):
        report.when = "setup"  # what pytest calls an error
        vars(report)[_UNREACHABLE] = isinstance(found.value, NodeUnreachable)


def is_unreachable(report: object) -> bool:
    """Return whether a report is of a node without a connection."""
    return bool(getattr(report, _UNREACHABLE, False))
