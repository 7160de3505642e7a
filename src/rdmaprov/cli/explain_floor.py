"""`rdmaprov explain floor`: what an all-reduce must reach, and what a number means."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import click

from rdmaprov.bandwidth import ceiling
from rdmaprov.bandwidth.fabric import Fabric, parse_slot
from rdmaprov.bandwidth.floor import FloorVerdict, Judgement, derive, judge
from rdmaprov.bandwidth.rates import format_gb_s
from rdmaprov.exit_codes import ExitCode


@click.command("floor", short_help="Derive the floor in GB/s; judge a measurement.")
@click.option("--nodes", type=int, required=True, help="Nodes that take part.")
@click.option("--gpus-per-node", type=int, required=True, help="GPUs of each node.")
@click.option("--rails", type=int, required=True, help="RDMA ports of each node.")
@click.option("--link-gbps", type=float, required=True, help="Line rate of one rail, in Gb/s.")
@click.option(
    "--oversubscription",
    type=float,
    default=1.0,
    show_default=True,
    help="How much more the rails could send than the spines carry.",
)
@click.option("--measured", type=float, metavar="GB_S", help="Bus bandwidth, in GB/s.")
@click.option(
    "--algorithm",
    type=click.Choice(["auto", *ceiling.ALGORITHMS]),
    default="auto",
    show_default=True,
    help="What NCCL_ALGO was.",
)
@click.option("--pcie", metavar="GENxLANES", help="Slot of each rail and GPU, such as 5x16.")
@click.option(
    "--nvlink-nodes", type=int, default=1, show_default=True, help="Nodes that share NVLink."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def floor(
    nodes: int,
    gpus_per_node: int,
    rails: int,
    link_gbps: float,
    oversubscription: float,
    measured: float | None,
    algorithm: str,
    pcie: str | None,
    nvlink_nodes: int,
    as_json: bool,
) -> int:
    """Derive what an all-reduce over such nodes must and can reach, and judge a measurement.

    Give the bus bandwidth (busbw) of a large size, 1 GiB or more. Exit code 1 if it is slow, or
    more than the links carry.
    """
    fabric = Fabric(
        nodes,
        gpus_per_node,
        rails,
        link_gbps,
        oversubscription,
        parse_slot(pcie) if pcie else None,
        nvlink_nodes,
    )
    judgement = judge(fabric, derive(fabric, algorithm), measured, algorithm)
    if as_json:
        click.echo(json.dumps(_document(fabric, judgement, measured), indent=2))
    else:
        click.echo("\n".join(_lines(judgement)))
    return ExitCode.OK if judgement.verdict in {None, FloorVerdict.HEALTHY} else ExitCode.FAILED


def _document(fabric: Fabric, judgement: Judgement, measured: float | None) -> dict[str, Any]:
    wanted = judgement.floor
    return {
        "nodes": fabric.nodes,
        "gpus_per_node": fabric.gpus_per_node,
        "rails": fabric.rails,
        "link_gbps": fabric.link_gbps,
        "ceiling_gb_s": round(wanted.ceiling_gb_s, 3),
        "floor_gb_s": round(wanted.floor_gb_s, 3),
        "most_gb_s": round(wanted.most_gb_s, 3),
        "measured_gb_s": measured,
        "verdict": judgement.verdict,
        "likely_causes": [_round_bounds(asdict(cause)) for cause in judgement.likely_causes],
        "notes": list(judgement.notes),
        "derivation": f"{judgement.sentence}. {wanted.derivation}",
    }


def _round_bounds(cause: dict[str, Any]) -> dict[str, Any]:
    """Return a cause with rounded numbers, and null for no bound, as JSON has no infinity."""
    for name in ("expected_ratio", "expected_gb_s"):
        cause[name] = [None if math.isinf(value) else round(value, 3) for value in cause[name]]
    return cause


def _lines(judgement: Judgement) -> Iterator[str]:
    """Yield the verdict, its derivation, and the likely causes."""
    verdict = f": {judgement.verdict}" if judgement.verdict else ""
    yield f"{judgement.sentence}{verdict}"
    yield judgement.floor.derivation
    yield from judgement.notes
    if judgement.likely_causes:
        yield "Likely causes:"
    for cause in judgement.likely_causes:
        low, high = cause.expected_gb_s
        up_to = "or more" if math.isinf(high) else f"to {format_gb_s(high)}"
        yield f"  {cause.cause}: {format_gb_s(low)} {up_to} ({cause.source})"
        yield f"    check: {cause.check}"
