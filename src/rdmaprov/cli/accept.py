"""`rdmaprov accept`: nodes together move what their links can, or who does not is named."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

import click

from rdmaprov.acceptance import state
from rdmaprov.acceptance.gate import Gate, Options
from rdmaprov.acceptance.launch import RankEvent
from rdmaprov.acceptance.nodes import connect
from rdmaprov.acceptance.result import GateResult
from rdmaprov.acceptance.storage import history_path, log_writer
from rdmaprov.acceptance.summary import summary_lines
from rdmaprov.bandwidth import sizes
from rdmaprov.cli import run_options
from rdmaprov.cli.check import limit_option, site_argument, vault_file_option
from rdmaprov.cli.verbosity import verbosity_options
from rdmaprov.interrupt import signals_interrupt
from rdmaprov.inventory import Fleet
from rdmaprov.problem import printable
from rdmaprov.report.write import report_page
from rdmaprov.runs.directory import RunDirectory
from rdmaprov.runs.envelope import Head, results_document
from rdmaprov.runs.masks import Mask
from rdmaprov.runs.screen import Screen
from rdmaprov.terminal import Line, Meter


@click.command(short_help="Prove the fabric by an all-reduce; say who is to blame.")
@site_argument
@limit_option
@click.option(
    "--backend",
    type=click.Choice(["auto", "nccl", "gloo"]),
    default="auto",
    show_default=True,
    help="What moves the data; auto is nccl where there are GPUs.",
)
@click.option(
    "--sizes",
    "size_range",
    metavar="MIN:MAX",
    default="",
    help="Sizes of messages, such as 1M:8G; by default all that fit.",
)
@click.option("--pairs", is_flag=True, help="Measure every pair of nodes.")
@click.option(
    "--isolate",
    type=click.Choice(["auto", "never"]),
    default="auto",
    show_default=True,
    help="Find the culprit by testing groups when a failed run does not name it.",
)
@click.option(
    "--timeout",
    metavar="S",
    type=click.FloatRange(min=10),
    help="Seconds that the run may take; each of its steps has a limit of its own.",
)
@click.option("--despite-state", is_flag=True, help="Measure nodes whose last validate failed.")
@run_options.json_option
@vault_file_option
@verbosity_options
def accept(
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
    """Run all-reduces over all nodes of a site; verify every value, time every size.

    First a preflight says what is missing, and each rail is tried. Everything is kept under runs/.
    Exits with 1 if something is wrong, with 4 if something could not be told.
    """
    wanted = sizes.parse_sizes(size_range) if size_range else ()
    options = Options(backend, wanted, pairs, isolate == "auto", timeout)
    with signals_interrupt():
        given = run_options.Passwords(vault_password_file, (), ())
        fleet, mask = run_options.checked(site, limit, given)
        screen = run_options.screen_for(json_file, mask)
        with RunDirectory("accept", mask, log="ranks.jsonl") as directory:
            head = Head("accept", site, limit, datetime.now(UTC))
            result = _result(fleet, options, directory, mask, screen, despite_state)
            text = directory.write_results(document(head, datetime.now(UTC), result))
    if json_file is not None:
        json_file.write(text)
    for line in summary_lines(result):
        screen.show(line)
    screen.show(Line(f"everything is in {directory.path}"))
    screen.show(Line(report_page(directory.path)))
    return result.exit_code()


def _result(
    fleet: Fleet,
    options: Options,
    directory: RunDirectory,
    mask: Mask,
    screen: Screen,
    despite_state: bool,
) -> GateResult:
    """Return the result of the gate; nodes in a wrong state are not measured."""
    names = tuple(node.name for node in fleet.nodes)
    if not despite_state and (wrong := state.findings(fleet.site, names)):
        return GateResult(names, options.backend, wrong)
    with screen.moving("connecting", unit="sizes") as moving, connect(fleet) as connection:
        teller = _Teller(directory, screen, moving)
        return Gate(
            fleet.nodes,
            connection,
            options,
            log_writer(directory.path / "logs", mask),
            history_path(fleet.site),
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

    def hear(self, event: RankEvent) -> None:
        """Keep an event; rank 0 stands for all in what moves."""
        text = json.dumps(event)
        self.directory.log(text)
        self.screen.detail(text)
        if event["rank"] == 0 and event["event"] == "phase":
            self.moving.what = printable(str(event["phase"]))
        elif event["rank"] == 0 and event["event"] == "checked":
            self.moving.advance()


def document(head: Head, ended: datetime, result: GateResult) -> dict[str, Any]:
    """Return results.json; docs/results.schema.json describes it."""
    return results_document(
        head, ended, result.exit_code(), result.nodes_as_data(), result.as_data()
    )
