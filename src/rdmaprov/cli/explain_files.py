"""`rdmaprov explain FILE...`: what files are, and what they show, alone and together."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from rdmaprov.cli.verbosity import meter

if TYPE_CHECKING:
    from rdmaprov.explain.model import Shown
    from rdmaprov.finding.finding import Finding

_MOST = 20  # findings and facts of one input that are shown


class _OneName(click.Context):
    """A context of a command that has no name of its own."""

    @property
    def command_path(self) -> str:
        """Return the path without a blank for the name."""
        return super().command_path.rstrip()


class _FilesCommand(click.Command):
    context_class = _OneName


@click.command("", cls=_FilesCommand, short_help="Find what files are and what they show.")
@click.argument("names", metavar="FILE...", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def files(names: tuple[str, ...], as_json: bool) -> int:
    """Find what each FILE is and what it shows, alone and together."""
    from rdmaprov.explain.explain import explain_texts
    from rdmaprov.explain.model import GivenText, read_given, worst

    def given() -> Iterator[GivenText]:
        for name in dict.fromkeys(names):
            yield read_given(name)
            moving.advance()

    with meter("reading", len(set(names)), "files") as moving:
        shown = explain_texts(given())
    if as_json:
        click.echo(json.dumps({"inputs": [_document(each) for each in shown]}, indent=2))
    else:
        click.echo("\n\n".join("\n".join(_of_input(each)) for each in shown))
    return worst(each.code for each in shown if each.input != "together")


def _document(shown: Shown) -> dict[str, object]:
    from rdmaprov.cli.explain_nccl_log import document
    from rdmaprov.nccl_log.assessment import LogAssessment

    logs = [document(each) for each in shown.parsed if isinstance(each, LogAssessment)]
    return {
        "input": shown.input,
        "files": list(shown.files),
        "code": int(shown.code),
        "shows": list(shown.says),
        "right": shown.proves,
        "findings": [each.as_data() for each in shown.findings],
        "lacks": list(shown.lacks),
        **({"log": logs[0]} if logs else {}),
    }


def _of_input(shown: Shown) -> Iterator[str]:
    from rdmaprov.problem import printable
    from rdmaprov.words import some

    names = "together" if shown.input == "together" else some(shown.files, 4)
    yield click.style(
        printable(names if names == shown.input else f"{names}: {shown.input or 'unknown'}"),
        bold=True,
    )
    viewed = list(_views(shown))
    yield from viewed
    for line in shown.says[:_MOST]:
        yield printable(line)
    if len(shown.says) > _MOST:
        yield f"and {len(shown.says) - _MOST} more; see --json"
    if not viewed:
        yield from _findings(shown.findings)
    if shown.proves and shown.input != "job":
        yield click.style("right:   ", fg="green") + printable(shown.proves)
    for line in shown.lacks[:_MOST]:
        yield printable(f"not known: {line}")


def _views(shown: Shown) -> Iterator[str]:
    """Yield what the verb of an input prints, its findings too; nothing if it has none."""
    from rdmaprov.cli import explain_switch_run, nccl_log_view, subnet_view
    from rdmaprov.nccl_log.assessment import LogAssessment
    from rdmaprov.subnet.judge import Assessment
    from rdmaprov.switches.judge import SwitchAssessment
    from rdmaprov.switches.wanted import WantedSwitch

    for each in shown.parsed:
        if isinstance(each, LogAssessment):
            yield from nccl_log_view.lines(each)
        elif isinstance(each, Assessment):
            seen = list(subnet_view.lines(each))
            yield from seen if each.fabric.switches or each.fabric.hcas else seen[:-1]
        elif isinstance(each, WantedSwitch):
            switches = [found for found in shown.parsed if isinstance(found, SwitchAssessment)]
            yield from explain_switch_run.switch_lines(switches, each)


def _findings(found: Sequence[Finding]) -> Iterator[str]:
    from rdmaprov.problem import printable

    for each in found[:_MOST]:
        mark = ("problem: ", "red") if each.proven else ("unknown: ", "yellow")
        yield click.style(mark[0], fg=mark[1]) + printable(each.what)
        if each.remedy:
            yield f"         {printable(each.remedy)}"
    if len(found) > _MOST:
        yield f"and {len(found) - _MOST} more; see --json"
