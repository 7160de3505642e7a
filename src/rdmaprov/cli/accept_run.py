"""What `rdmaprov accept` does; apart from its options, so that help stays fast."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from rdmaprov.acceptance import sizes, state
from rdmaprov.acceptance.files import history_of, keeper
from rdmaprov.acceptance.gate import Gate, Options
from rdmaprov.acceptance.launch import Event
from rdmaprov.acceptance.nodes import connected
from rdmaprov.acceptance.result import Result
from rdmaprov.acceptance.show import lines
from rdmaprov.apply.masks import Mask
from rdmaprov.apply.progress import Screen
from rdmaprov.apply.rundir import RunDirectory
from rdmaprov.apply.summary import Line
from rdmaprov.cli import session
from rdmaprov.interrupt import signals_interrupt
from rdmaprov.inventory import Fleet
from rdmaprov.problem import printable
from rdmaprov.report.envelope import Head, enveloped
from rdmaprov.report.write import told
from rdmaprov.terminal import Meter


def prove(
    site: Path,
    limit: str | None,
    backend: str,
    size_range: str,
    pairs: bool,
    isolate: str,
    timeout: float | None,
    despite_state: bool,
    json_file: IO[str] | None,
    vault_password_file: Path | None,
) -> int:
    """Run the gate over a site's nodes; return the exit code."""
    wanted = sizes.parsed(size_range) if size_range else ()
    options = Options(backend, wanted, pairs, isolate == "auto", timeout)
    with signals_interrupt():
        given = session.Passwords(vault_password_file, (), ())
        fleet, mask = session.checked(site, limit, given)
        screen = session.screen_for(json_file, mask)
        with RunDirectory("accept", mask, log="ranks.jsonl") as directory:
            head = Head("accept", site, limit, datetime.now(UTC))
            result = _result(fleet, options, directory, mask, screen, despite_state)
            text = directory.write_results(document(head, datetime.now(UTC), result))
    if json_file is not None:
        json_file.write(text)
    for line in lines(result):
        screen.show(line)
    screen.show(Line(f"everything is in {directory.path}"))
    screen.show(Line(told(directory.path)))
    return result.exit_code()


def _result(
    fleet: Fleet,
    options: Options,
    directory: RunDirectory,
    mask: Mask,
    screen: Screen,
    despite_state: bool,
) -> Result:
    """Return the result of the gate; nodes in a wrong state are not measured."""
    names = tuple(node.name for node in fleet.nodes)
    if not despite_state and (wrong := state.findings(fleet.site, names)):
        return Result(names, options.backend, wrong)
    with screen.moving("connecting", unit="sizes") as moving, connected(fleet) as connection:
        teller = _Teller(directory, screen, moving)
        return Gate(
            fleet.nodes,
            connection,
            options,
            keeper(directory.path / "logs", mask),
            history_of(fleet.site),
            teller.tell,
            teller.hear,
            lambda count: moving.count(0, count),
        ).run()


@dataclass(frozen=True)
class _Teller:
    """Tells the user, and the log, what the gate is at."""

    directory: RunDirectory
    screen: Screen
    moving: Meter

    def tell(self, text: str) -> None:
        """Show a step; nothing of it is done yet."""
        self.moving.what = text.partition(":")[0].partition(",")[0]
        self.moving.count(0, 0)
        self.screen.remark(Line(text))

    def hear(self, event: Event) -> None:
        """Keep an event; rank 0 stands for all in what moves."""
        text = json.dumps(event)
        self.directory.log(text)
        self.screen.detail(text)
        if event["rank"] == 0 and event["event"] == "phase":
            self.moving.what = printable(str(event["phase"]))
        elif event["rank"] == 0 and event["event"] == "checked":
            self.moving.advance()


def document(head: Head, ended: datetime, result: Result) -> dict[str, Any]:
    """Return results.json; docs/results.schema.json describes it."""
    return enveloped(head, ended, result.exit_code(), result.nodes_as_data(), result.as_data())
