"""One run of the suite on a site, kept in a run's directory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from rdmaprov.errors import UsageError
from rdmaprov.exit_codes import ExitCode
from rdmaprov.inventory import Fleet
from rdmaprov.problem import visible
from rdmaprov.resources import suite_dir
from rdmaprov.runs.directory import RUNS, RunDirectory
from rdmaprov.runs.envelope import Head, results_document
from rdmaprov.runs.masks import Mask
from rdmaprov.validate import plugin
from rdmaprov.validate.results import CheckResults


@dataclass(frozen=True)
class ValidateRequest:
    """What a user asks for.

    Args:
        site: the inventory directory.
        limit: Ansible's pattern, if there is one.
        hosts: testinfra's host specifications, if there are any.
        options: pytest's.
        vault_password_file: opens vaulted values.

    """

    site: Path
    limit: str | None
    hosts: str | None
    options: tuple[str, ...]
    vault_password_file: Path | None


@dataclass(frozen=True)
class Done:
    """A run that has ended: what it found, where that is kept, and results.json's text."""

    findings: CheckResults
    directory: RunDirectory
    code: ExitCode
    text: str


def run(request: ValidateRequest, fleet: Fleet, mask: Mask) -> Done:
    """Judge the nodes of a fleet; keep results.json, junit.xml and logs/pytest.log.

    Raises:
        UsageError: pytest does not know an option, or no test is left.

    """
    started = datetime.now(UTC)
    findings = CheckResults(tuple(node.name for node in fleet.nodes))
    with RunDirectory("validate", mask, log="pytest.log") as directory:
        with _junit(directory) as junit:
            ended = pytest.main(
                list(_arguments(request, junit)), plugins=[findings, plugin.Preloaded(fleet)]
            )
        for one in findings.judged:
            directory.log(f"{one.outcome}: {one.test}: {one.message}")
        code = _code(int(ended), findings)
        text = directory.write_results(
            document(request, started, datetime.now(UTC), code, findings)
        )
    return Done(findings, directory, code, text)


def document(
    request: ValidateRequest,
    started: datetime,
    ended: datetime,
    code: ExitCode,
    findings: CheckResults,
) -> dict[str, Any]:
    """Return results.json; docs/results.schema.json describes it."""
    head = Head("validate", request.site, request.limit, started)
    asked = {"hosts": request.hosts, "options": list(request.options)}
    nodes = findings.nodes_as_data()
    return results_document(head, ended, code, nodes, {**asked, **findings.as_data()})


def _arguments(request: ValidateRequest, junit: Path) -> Iterator[str]:
    suite = suite_dir()
    yield f"--config-file={suite / 'pytest.ini'}"
    yield f"--rootdir={suite}"
    # A wheel's directory is not the user's to write.
    yield f"--override-ini=cache_dir={Path(RUNS, '.pytest_cache').absolute()}"
    yield f"--inventory={request.site}"
    yield f"--junitxml={junit}"
    yield f"--hosts={request.hosts or request.limit or 'all'}"
    if request.vault_password_file is not None:
        yield f"--vault-password-file={request.vault_password_file}"
    yield from ("-p", "rdmaprov.validate.plugin")
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


def _xml_escape(character: str) -> str:
    return f"&#x{ord(character):x};"


@contextmanager
def _junit(directory: RunDirectory) -> Iterator[Path]:
    """Provide the path for pytest's report in XML; keep the report, without secrets.

    The path leads into memory: pytest itself would write the secrets to a disk, and a full one
    would end it.
    """
    path = directory.path / "junit.xml"
    memory = Path(f"/proc/self/fd/{os.memfd_create('junit')}")
    try:
        try:
            path.symlink_to(memory)
        except OSError as error:
            directory.missed[path] = error
        yield path if path.is_symlink() else memory
        text = memory.read_text(encoding="utf-8")
        path.unlink(missing_ok=True)
        if text:
            directory.write_text(path.name, visible(text, _xml_escape))
    finally:
        os.close(int(memory.name))
