"""`rdmaprov accept`: nodes together move what their links can, or who does not is named."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

import click
from rich.console import Console

from rdmaprov.acceptance import sizes, state
from rdmaprov.acceptance.files import history_of, keeper
from rdmaprov.acceptance.gate import Gate, Options
from rdmaprov.acceptance.nodes import connected
from rdmaprov.acceptance.result import SCHEMA, Result
from rdmaprov.acceptance.show import lines
from rdmaprov.apply.masks import Mask
from rdmaprov.apply.progress import Screen
from rdmaprov.apply.rundir import RunDirectory
from rdmaprov.apply.summary import Line
from rdmaprov.cli import run_options
from rdmaprov.cli.check import limit_option, site_argument, vault_file_option
from rdmaprov.interrupt import signals_interrupt
from rdmaprov.inventory import Fleet


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

    First a census says what is missing, and each rail is tried. Everything is kept under runs/.
    Exits with 1 if something is wrong, with 4 if something could not be told.
    """
    wanted = sizes.parsed(size_range) if size_range else ()
    options = Options(backend, wanted, pairs, isolate == "auto", timeout)
    with signals_interrupt():
        given = run_options.Passwords(vault_password_file, (), ())
        fleet, mask = run_options.checked(site, limit, given)
        taken = json_file is not None and json_file.name == "-"
        screen = Screen(Console(stderr=taken, highlight=False), mask)
        with RunDirectory("accept", mask, log="ranks.jsonl") as directory:
            started = datetime.now(UTC)
            result = _result(fleet, options, directory, mask, screen, despite_state)
            head = {"site": str(site), "limit": limit, "started": started}
            text = directory.write_results(document(head, result))
    if json_file is not None:
        json_file.write(text)
    for line in lines(result):
        screen.show(line)
    screen.show(Line(f"everything is in {directory.path}"))
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
    with connected(fleet) as connection:
        return Gate(
            fleet.nodes,
            connection,
            options,
            keeper(directory.path / "logs", mask),
            history_of(fleet.site),
            lambda text: screen.show(Line(text)),
            lambda event: directory.log(json.dumps(event)),
        ).run()


def document(head: dict[str, Any], result: Result) -> dict[str, Any]:
    """Return results.json; docs/acceptance.schema.json describes it."""
    started: datetime = head["started"]
    return {
        "schema": SCHEMA,
        "verb": "accept",
        "site": head["site"],
        "limit": head["limit"],
        "started": started.isoformat(timespec="seconds"),
        "seconds": round((datetime.now(UTC) - started).total_seconds(), 1),
        "exit_code": int(result.exit_code()),
        "interrupted": result.interrupted,
        **result.as_data(),
    }
