"""A run of plain `pytest validate/`: it keeps the results that `rdmaprov validate` keeps."""

import contextlib
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rdmaprov.inventory import Fleet
from rdmaprov.resources import suite_dir
from rdmaprov.runs.directory import RunDirectory
from rdmaprov.runs.masks import Mask
from rdmaprov.validate import options
from rdmaprov.validate.complete import Completeness
from rdmaprov.validate.results import CheckResults
from rdmaprov.validate.run import ValidateRequest, document, log_judged
from rdmaprov.validate.selection import ALL, Selection


def keep_results(session: pytest.Session, selection: Selection) -> None:
    """Have a session of the suite keep its results in runs/, unless a verb started it."""
    config = session.config
    suite = suite_dir().resolve()
    paths = [Path(word.partition("::")[0]).resolve() for word in config.args]
    if (
        options.is_preloaded(config)
        or config.option.collectonly
        or not any(path.is_relative_to(suite) for path in paths)
    ):
        return
    hosts = config.getoption("hosts") or ALL
    own = CheckResults(
        tuple(node.name for node in selection.fleet.nodes),
        asked=Completeness(is_limited=hosts != ALL),
    )
    kept = _PlainRun(selection.fleet, None if hosts == ALL else hosts, own, config)
    for plugin in (own, own.asked, kept):
        config.pluginmanager.register(plugin)
    # Registered while a session starts, they do not hear of it.
    own.asked.pytest_sessionstart(session)


class _PlainRun:
    """A run's directory, written at the end; where it cannot be written, the terminal says why."""

    def __init__(
        self, fleet: Fleet, hosts: str | None, found: CheckResults, config: pytest.Config
    ) -> None:
        self._hosts, self._found = hosts, found
        self._site = Path(config.getoption("inventory"))
        self._words = tuple(map(str, config.invocation_params.args))
        self._mask = Mask(fleet.secrets(), self._site)
        self._started = datetime.now(UTC)
        self._said = ""

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """Write the results, once everybody has added to them."""
        request = ValidateRequest(self._site, None, self._hosts, self._words)
        found = self._found
        if not found.counts:
            return
        try:
            with RunDirectory("validate", self._mask, log="pytest.log") as directory:
                log_judged(directory, found)
                ended = datetime.now(UTC)
                directory.write_results(
                    document(request, self._started, ended, found.exit_code(), found)
                )
        except OSError as error:
            self._said = f"results are not kept: {error}"
            return
        missed = "; ".join(map(str, directory.missed.values()))
        self._said = f"results are not whole: {missed}" if missed else f"results: {directory.path}"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say where the results are."""
        with contextlib.suppress(OSError):
            terminalreporter.write_line(self._said or "results are not kept: no check was made")
