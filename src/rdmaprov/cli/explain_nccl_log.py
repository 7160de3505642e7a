"""`rdmaprov explain nccl-log`: read from its logs which transport NCCL used."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rdmaprov.cli.verbosity import meter

if TYPE_CHECKING:
    from rdmaprov.nccl_log.assessment import LogAssessment
    from rdmaprov.terminal import Meter


@click.command("nccl-log", short_help="Show which transport NCCL used, from its logs.")
@click.argument(
    "files",
    metavar="FILE...",
    nargs=-1,
    required=True,
    type=click.Path(path_type=Path, allow_dash=True),
)
@click.option(
    "--expect",
    type=click.Choice(["ib", "roce"]),
    help="Transport that all channels between nodes must use.",
)
@click.option("--no-gdr", is_flag=True, help="With --expect: do not require GPUDirect RDMA.")
@click.option("--partial", is_flag=True, help="Accept logs of some ranks only, and judge these.")
@click.option("--json", "as_json", is_flag=True, help="Print the verdict and all channels as JSON.")
def nccl_log(
    files: tuple[Path, ...], expect: str | None, no_gdr: bool, partial: bool, as_json: bool
) -> int:
    """Read NCCL logs (NCCL_DEBUG=INFO) of one job; print which transport the nodes used.

    A file can hold any number of ranks; - is standard input.

    \b
    Exit codes with --expect:
      0  all channels between nodes use that transport, with GPUDirect RDMA
      1  a channel does not
      4  the logs are incomplete or do not show it
    Exit codes without --expect:
      0  the transport is known
      1  transports are mixed, NCCL used sockets although it found an HCA, or
         only some channels use GPUDirect RDMA
      4  the transport is unknown

    \b
    With and without --expect, 1 if NCCL or torch says that the job failed: completions
    with error, ports that went down, connections that broke, operations that timed out,
    errors of CUDA. The likely cause comes first.
    """
    from rdmaprov.cli import nccl_log_view
    from rdmaprov.nccl_log import transport
    from rdmaprov.nccl_log.assessment import assess

    with meter("reading", len(files), "files") as moving:
        matrix = transport.read_matrix(_count_files(files, moving))
    wanted = transport.Transport(expect) if expect else None
    gdr_required = wanted is not None and not no_gdr
    found = assess(matrix, wanted, gdr_required=gdr_required, every_rank=not partial)
    if as_json:
        click.echo(json.dumps(document(found), indent=2))
    else:
        for line in nccl_log_view.lines(found):
            click.echo(line)
    return found.exit_code


def _count_files(files: tuple[Path, ...], moving: Meter) -> Iterator[Path]:
    """Yield files; count each as done when the next one is asked for."""
    for file in files:
        yield file
        moving.advance()


def document(found: LogAssessment) -> dict[str, object]:
    """Return the object of --json; docs/nccl-logs.md defines each key."""
    from rdmaprov.nccl_log.judgement import sentence

    matrix, verdict = found.matrix, found.verdict
    return {
        "transport": verdict.transport,
        "gdr": verdict.gdr,
        "hcas": list(verdict.hcas),
        "sharp": verdict.sharp,
        "nccl_version": verdict.nccl_version,
        "problems": [sentence(each) for each in found.failed + found.problems],
        "notes": [*found.reasons, *found.notes],
        "algorithms": [asdict(choice) for choice in matrix.choices],
        "completion_errors": [asdict(error) for error in matrix.errors],
        "warnings": [{"host": host, "text": text} for host, text in matrix.broken.warnings],
        "diagnostics": [asdict(line) for line in matrix.diagnostics],
        "matrix": [
            {
                "rank": channel.rank.number,
                "host": channel.rank.host,
                "pid": channel.rank.pid,
                "gpu": channel.rank.gpu,
                "channel": channel.number,
                "direction": "send" if channel.sends else "receive",
                "peer": channel.peer,
                "transport": channel.transport,
                "network": channel.network,
                "hcas": list(channel.hcas),
                "gdr": channel.gdr,
            }
            for channel in matrix.channels
        ],
    }
