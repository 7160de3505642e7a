"""One run of the suite on a site, kept in a run's directory."""

import contextlib
import gc
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from rdmaprov.errors import UsageError
from rdmaprov.exit_codes import ExitCode
from rdmaprov.inventory import Fleet
from rdmaprov.probe.recorded import AnyProbe
from rdmaprov.resources import suite_dir
from rdmaprov.runs.directory import RunDirectory, runs_directory
from rdmaprov.runs.envelope import Head, results_document
from rdmaprov.runs.masks import Mask
from rdmaprov.validate.complete import Completeness
from rdmaprov.validate.junit import JUnit
from rdmaprov.validate.options import Preloaded
from rdmaprov.validate.results import CheckResults, lines


@dataclass(frozen=True)
class ValidateRequest:
    """What a user asks for."""

    site: Path
    limit: str | None
    hosts: str | None  # testinfra's host specifications, if there are any
    options: tuple[str, ...]
    passwords: tuple[str, ...] = ()  # the plugin's arguments that name files with passwords
    # the problems of the site that it accepts, for results.json
    waivers: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True)
class Done:
    """A run that has ended: its summary, where it is kept, and results.json's text.

    It has no checks: those of a large fleet take much memory, and the page reads results.json.
    """

    summary: tuple[str, ...]
    directory: RunDirectory
    code: ExitCode
    text: str


def run(request: ValidateRequest, fleet: Fleet, mask: Mask, probe: AnyProbe | None = None) -> Done:
    """Judge the nodes of a fleet; keep results.json, junit.xml and logs/pytest.log.

    Args:
        probe: what asks the nodes; None for connections of their own.

    Raises:
        UsageError: pytest does not know an option, or no test is left.
    """
    started = datetime.now(UTC)
    is_limited = request.limit is not None or request.hosts is not None
    asked = Completeness(is_live=probe is None, is_limited=is_limited)
    findings = CheckResults(tuple(node.name for node in fleet.nodes), asked=asked)
    with RunDirectory("validate", mask, log="pytest.log") as directory:
        junit = JUnit(directory, mask)
        plugins = [findings, asked, junit, Preloaded(fleet, probe)]
        ended = pytest.main([*_arguments(request)], plugins=plugins)
        gc.collect()  # pytest's session, with all of its checks: it is in cycles
        junit.close()
        log_judged(directory, findings)
        code = _code(int(ended), findings)
        text = directory.write_results(
            document(request, started, datetime.now(UTC), code, findings)
        )
    return Done(tuple(lines(findings)), directory, code, text)


def log_judged(directory: RunDirectory, findings: CheckResults) -> None:
    """Write each check that did not pass into the log of a run."""
    for one in findings.judged:
        more = f" and {len(one.also):,} more" if one.also else ""
        directory.log(f"{one.outcome}: {one.test}{more}: {one.message}")


def read(site: Path, fleet: Fleet, probe: AnyProbe) -> None:
    """Have the suite ask a fleet's nodes all that it asks; keep no verdict, and print nothing.

    Raises:
        RuntimeError: pytest failed, and not because of a node.
    """
    request = ValidateRequest(site, None, None, ("-q", "-p", "no:cacheprovider"))
    with contextlib.redirect_stdout(io.StringIO()) as said:
        plugins = [Preloaded(fleet, probe)]
        ended = pytest.main([*_arguments(request)], plugins=plugins)
    if ended not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        raise RuntimeError(said.getvalue())


def document(
    request: ValidateRequest,
    started: datetime,
    ended: datetime,
    code: ExitCode,
    findings: CheckResults,
) -> dict[str, Any]:
    """Return results.json; docs/results.schema.json describes it."""
    head = Head("validate", request.site, request.limit, started, request.waivers)
    asked = {"hosts": request.hosts, "options": list(request.options)}
    nodes = findings.nodes_as_data()
    return results_document(head, ended, code, nodes, {**asked, **findings.as_data()})


def _arguments(request: ValidateRequest) -> Iterator[str]:
    suite = suite_dir()
    yield f"--config-file={suite / 'pytest.ini'}"
    yield f"--rootdir={suite}"
    # A wheel's directory is not the user's to write.
    yield f"--override-ini=cache_dir={(runs_directory() / '.pytest_cache').absolute()}"
    yield f"--inventory={request.site}"
    yield f"--hosts={request.hosts or request.limit or 'all'}"
    yield from request.passwords
    yield from ("-p", "rdmaprov.validate.plugin", "--no-header")
    named = [_in_suite(suite, word) for word in request.options]
    yield from named
    # A user's own tests run in place of the suite.
    if not any(Path(word.partition("::")[0]).exists() for word in named):
        yield str(suite)


def _in_suite(suite: Path, word: str) -> str:
    """Return a word of the command line, with its place if it names a file of the suite."""
    file, colons, rest = word.partition("::")
    path = suite / Path(file).name
    here = Path(file).exists() or not file.endswith(".py") or not path.is_file()
    return word if here else f"{path}{colons}{rest}"


def _code(ended: int, findings: CheckResults) -> ExitCode:
    if ended == pytest.ExitCode.USAGE_ERROR:
        raise UsageError("pytest rejects its options; its message is above", "See: pytest --help")
    if ended == pytest.ExitCode.NO_TESTS_COLLECTED:
        raise UsageError("no test is left to run", "Check -k, -m and the names of test files")
    if ended == pytest.ExitCode.INTERNAL_ERROR:
        return ExitCode.UNKNOWN
    return findings.exit_code()
