"""junit.xml of a run, written in pieces.

pytest's own writer keeps all of it in memory, and a large fleet has half a million checks.
"""

import io
import re
import socket
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from typing import IO
from xml.sax.saxutils import escape, quoteattr

import pytest
from _pytest._code.code import ExceptionRepr
from _pytest.junitxml import bin_xml_escape, mangle_test_address

from rdmaprov.problem import visible
from rdmaprov.runs.directory import RunDirectory
from rdmaprov.runs.files import write_whole
from rdmaprov.runs.masks import Mask
from rdmaprov.validate.results import Outcome, message, outcome_of

# JUnit's word for each.
_TAGS = {Outcome.FAILED: "failure", Outcome.ERROR: "error", Outcome.SKIPPED: "skipped"}
_PLAIN = re.compile(r"[ !#-%(-;=?-~]*")  # what an attribute has as it is
_AT_ONCE = 256  # checks that are masked and written together: a third of their cost one by one


class JUnit:
    """A plugin that writes junit.xml, without secrets."""

    def __init__(self, directory: RunDirectory, mask: Mask) -> None:
        self._directory, self._mask = directory, mask
        self._began = datetime.now(UTC)
        self._counts: Counter[Outcome] = Counter()
        self._path = directory.path / "junit.xml"
        # Here, as /tmp may be in memory; the head of junit.xml, with the counts, comes first.
        self._cases: IO[str] = io.StringIO()
        self._waiting: list[str] = []
        with self._missing():
            self._cases = tempfile.TemporaryFile(  # noqa: SIM115 - open for as long as the run
                "w+", dir=directory.path, encoding="utf-8", errors="backslashreplace"
            )

    @contextmanager
    def _missing(self) -> Iterator[None]:
        """Note that junit.xml cannot be written."""
        try:
            yield
        except OSError as error:
            self._directory.missed.setdefault(self._path, error)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write a check."""
        self._add(report, report.duration)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Write a file of the suite that cannot be read."""
        if report.failed:
            self._add(report, 0)

    def pytest_internalerror(self, excrepr: ExceptionRepr) -> None:
        """Write an error of pytest's or of a plugin's."""
        self._counts[Outcome.ERROR] += 1
        self._write('"pytest"', "internal", 0, _element("error", "internal error", str(excrepr)))

    def _add(self, report: pytest.TestReport | pytest.CollectReport, seconds: float) -> None:
        outcome = outcome_of(report)
        if outcome is None:
            return
        self._counts[outcome] += 1
        file, _, test = report.nodeid.partition("::")
        test, bracket, brackets = test.partition("[")
        parents, name = _names(file, test)
        body = ""
        if outcome in _TAGS:
            text = message(report)
            whole = text if outcome is Outcome.SKIPPED else str(report.longrepr)
            body = _element(_TAGS[outcome], text, whole)
        self._write(parents, f"{name}{bracket}{brackets}", seconds, body)

    def _write(self, parents: str, name: str, seconds: float, body: str) -> None:
        self._waiting.append(
            f"<testcase classname={parents} name={_attribute(name)} "
            f'time="{seconds:.3f}">{body}</testcase>\n'
        )
        if len(self._waiting) == _AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        text = self._mask.text("".join(self._waiting))
        self._waiting.clear()
        if self._path not in self._directory.missed:
            with self._missing():
                self._cases.write(visible(text, lambda each: f"&#x{ord(each):x};"))

    def close(self) -> None:
        """Write junit.xml."""
        self._flush()
        with self._missing(), self._cases:
            if self._path not in self._directory.missed:
                write_whole(self._path, self._lines())

    def _lines(self) -> Iterator[str]:
        counts = " ".join(
            f'{word}="{number}"'
            for word, number in (
                ("errors", self._counts[Outcome.ERROR]),
                ("failures", self._counts[Outcome.FAILED]),
                ("skipped", self._counts[Outcome.SKIPPED]),
                ("tests", self._counts.total()),
            )
        )
        seconds = (datetime.now(UTC) - self._began).total_seconds()
        yield '<?xml version="1.0" encoding="utf-8"?>\n'
        yield (
            f'<testsuites name="pytest tests"><testsuite name="pytest" {counts} '
            f'time="{seconds:.3f}" timestamp="{self._began.isoformat()}" '
            f"hostname={_attribute(socket.gethostname())}>\n"
        )
        self._cases.seek(0)
        yield from self._cases
        yield "</testsuite></testsuites>\n"


def _element(tag: str, text: str, whole: str) -> str:
    kind = ' type="pytest.skip"' if tag == "skipped" else ""
    return f"<{tag}{kind} message={_attribute(text)}>{escape(bin_xml_escape(whole))}</{tag}>"


@lru_cache(1024)
def _names(file: str, test: str) -> tuple[str, str]:
    """Return the class, as an attribute, and the name of a test function or a file."""
    *parents, name = mangle_test_address(f"{file}::{test}" if test else file)
    return _attribute(".".join(parents)), name


def _attribute(text: str) -> str:
    return f'"{text}"' if _PLAIN.fullmatch(text) else quoteattr(bin_xml_escape(text))
