"""`rdmaprov accept`: measure the fabric and name what is slow or broken."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

import click

from rdmaprov.acceptance import state
from rdmaprov.acceptance.files import history_of, log_writer
from rdmaprov.acceptance.gate import Gate, Options
from rdmaprov.acceptance.launch import Event
from rdmaprov.acceptance.nodes import connect
from rdmaprov.acceptance.result import Result
from rdmaprov.acceptance.show import lines
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


@click.command(
    short_help="Measure the fabric by all-reduces; name what is at fault.",
    epilog="Exit codes: 0 accepted, 1 refused, 3 the site is invalid, 4 a node is unreachable or a"
    " result is unknown.",
)
@site_argument
@limit_option
@click.option(
    "--backend",
    type=click.Choice(["auto", "nccl", "gloo"]),
    default="auto",
    show_default=True,
    help="Backend of torch.distributed; auto is nccl where nodes have GPUs.",
)
@click.option(
    "--sizes",
    "size_range",
    metavar="MIN:MAX",
    default="",
    help="Message sizes, such as 1M:8G.  [default: all that fit in memory]",
)
@click.option("--pairs", is_flag=True, help="Measure every pair of nodes.")
@click.option(
    "--isolate",
    type=click.Choice(["auto", "never"]),
    default="auto",
    show_default=True,
    help="Test groups of nodes to find the fault, if the run does not show it.",
)
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=click.FloatRange(min=10),
    help="Time limit of the whole run; each stage also has its own.",
)
@click.option(
    "--ignore-validate", is_flag=True, help="Measure nodes even if their last validate failed."
)
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
    ignore_validate: bool,
    json_file: IO[str] | None,
    vault_password_file: Path | None,
) -> int:
    """Run all-reduces over all nodes of SITE; verify every value, time every size.

    Starts with a preflight of each node and a check of rail reachability. Logs and results go
    to runs/, without secrets.
    """
    wanted = sizes.parsed(size_range) if size_range else ()
    options = Options(backend, wanted, pairs, isolate == "auto", timeout)
    with signals_interrupt():
        given = run_options.Passwords(vault_password_file, (), ())
        fleet, mask = run_options.check_site(site, limit, given)
        screen = run_options.screen_for(json_file, mask)
        with RunDirectory("accept", mask, log="ranks.jsonl") as directory:
            head = Head("accept", site, limit, datetime.now(UTC))
            result = _result(fleet, options, directory, mask, screen, ignore_validate)
            text = directory.write_results(document(head, datetime.now(UTC), result))
    if json_file is not None:
        json_file.write(text)
    for line in lines(result):
        screen.show(line)
    screen.show(Line(f"results: {directory.path}"))
    screen.show(Line(report_page(directory.path)))
    return result.exit_code()


def _result(
    fleet: Fleet,
    options: Options,
    directory: RunDirectory,
    mask: Mask,
    screen: Screen,
    ignore_validate: bool,
) -> Result:
    """Return the result of the gate; do not measure nodes whose last validate failed."""
    names = tuple(node.name for node in fleet.nodes)
    if not ignore_validate and (wrong := state.findings(fleet.site, names)):
        return Result(names, options.backend, wrong)
    with screen.meter("connecting", unit="sizes") as moving, connect(fleet) as connection:
        progress = _Progress(directory, screen, moving)
        return Gate(
            fleet.nodes,
            connection,
            options,
            log_writer(directory.path / "logs", mask),
            history_of(fleet.site),
            progress.tell,
            progress.hear,
            lambda count: moving.count(0, count),
        ).run()


@dataclass(frozen=True)
class _Progress:
    """Reports the gate's progress to the user and the log."""

    directory: RunDirectory
    screen: Screen
    moving: Meter

    def tell(self, text: str) -> None:
        """Show the stage that starts now."""
        self.moving.what = text.partition(":")[0].partition(",")[0]
        self.moving.count(0, 0)
        self.screen.remark(Line(text))

    def hear(self, event: Event) -> None:
        """Log an event; rank 0 drives the progress line."""
        text = json.dumps(event)
        self.directory.log(text)
        self.screen.detail(text)
        if event["rank"] == 0 and event["event"] == "phase":
            self.moving.what = printable(str(event["phase"]))
        elif event["rank"] == 0 and event["event"] == "checked":
            self.moving.advance()


def document(head: Head, ended: datetime, result: Result) -> dict[str, Any]:
    """Return results.json, as docs/results.schema.json defines it."""
    return results_document(
        head, ended, result.exit_code(), result.nodes_as_data(), result.as_data()
    )
