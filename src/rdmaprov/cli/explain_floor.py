"""`rdmaprov explain floor`: derive the floor of a collective and judge a measurement."""

import json
import math
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

import click
from click.core import ParameterSource

from rdmaprov.bandwidth import ceiling, gpus
from rdmaprov.bandwidth.fabric import Fabric, parse_slot
from rdmaprov.bandwidth.floor import derive, judge
from rdmaprov.bandwidth.floor_model import FloorVerdict, Judgement
from rdmaprov.bandwidth.rates import format_gb_s, format_size, parse_size
from rdmaprov.cli.options import bus_bandwidth, line_rate, require_rails
from rdmaprov.errors import UsageError
from rdmaprov.exit_codes import ExitCode


@click.command(
    "floor",
    context_settings={"show_default": True},
    short_help="Derive the bandwidth floor; judge a measurement.",
    epilog="Exit codes: 0 healthy or nothing measured, 1 slow or impossible, 2 wrong usage, "
    "4 not judged.",
)
@click.option("--nodes", type=int, required=True, help="Number of nodes.")
@click.option("--gpus-per-node", type=int, required=True, help="GPUs per node.")
@click.option("--rails", type=int, required=True, help="RDMA ports per node.")
@click.option(
    "--link-gbps", type=line_rate, required=True, help="Line rate of one rail: 400, 400G or NDR."
)
@click.option(
    "--oversubscription",
    type=float,
    default=1.0,
    help="Ratio of leaf downlinks to uplinks; 1 is non-blocking.",
)
@click.option(
    "--measured",
    type=bus_bandwidth,
    metavar="GB_S",
    help="Measured bus bandwidth (busbw), in GB/s.",
)
@click.option(
    "--algorithm",
    type=click.Choice(["auto", *(name for name in ceiling.ALGORITHMS if name != "direct")]),
    default="auto",
    help="Algorithm that NCCL chose, from its TUNING lines or NCCL_ALGO.",
)
@click.option(
    "--collective",
    type=click.Choice(tuple(ceiling.COLLECTIVES)),
    default="all_reduce",
    help="What was measured: PROGRAM_perf of nccl-tests.",
)
@click.option("--efa", is_flag=True, help="The rails are EFA of Amazon.")
@click.option(
    "--pcie",
    metavar="NIC[,GPU]",
    help="PCIe slots of a NIC and of a GPU, such as 5x16,6x16; one is of both.",
)
@click.option(
    "--nvlink-nodes",
    type=int,
    default=1,
    help="Nodes that NVLink connects in one domain; 1 with NCCL_MNNVL_ENABLE=0.",
)
@click.option(
    "--intra-node",
    "intra_node_gb_s",
    type=bus_bandwidth,
    metavar="GB_S",
    help="Bus bandwidth (busbw) of one node alone, in GB/s.",
)
@click.option("--gpu", metavar="NAME", help="GPU as nvidia-smi names it, instead of --intra-node.")
@click.option("--size", default="8G", metavar="BYTES", help="Size of the message.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def floor(
    context: click.Context,
    /,
    measured: float | None,
    algorithm: str,
    pcie: str | None,
    gpu: str | None,
    size: str,
    as_json: bool,
    **facts: Any,  # noqa: ANN401 - click's, by the names of Fabric
) -> int:
    """Derive the floor and the ceiling of a collective on these nodes; judge a measurement.

    Pass the bus bandwidth (busbw) of a message size of 1 GiB or more. A measurement above what
    the links can carry is judged impossible. Without --algorithm, the floor is the lowest of
    the algorithms that NCCL could choose.
    """
    require_rails(facts["link_gbps"], facts["rails"], "--link-gbps")
    nic, _, own = (pcie or "").partition(",")
    slot = parse_slot(own or nic) if pcie else gpus.slot_of([gpu or ""])
    fabric = Fabric(**facts, pcie=parse_slot(nic) if nic else None, gpu_pcie=slot)
    known = gpus.intra_node([gpu], fabric.gpu_slot) if gpu else None
    if gpu and not known:
        hint = f"Known: {gpus.KNOWN}. For another, leave --gpu out or pass --intra-node."
        raise UsageError(f"--gpu: '{gpu}' is not known", hint)
    if known and fabric.intra_node_gb_s is None:
        fabric = replace(fabric, intra_node_gb_s=known.gb_s, intra_node_by=known.algorithm)
    size_bytes = parse_size(size)
    is_given = context.get_parameter_source("size") is not ParameterSource.DEFAULT
    at = f"at {format_size(size_bytes)}" + ("" if is_given else " (assumed; --size sets it)")
    wanted = derive(fabric, algorithm, size_bytes=size_bytes)
    judgement = judge(fabric, wanted, measured, size_bytes=size_bytes)
    if as_json:
        found = _document(fabric, judgement, measured)
        found |= {"size_bytes": size_bytes, "size_is_assumed": not is_given}
        click.echo(json.dumps(found, indent=2))
    else:
        click.echo("\n".join(_lines(judgement, at)))
    if judgement.verdict is FloorVerdict.NOT_JUDGED:
        return ExitCode.UNKNOWN
    return ExitCode.OK if judgement.verdict in {None, FloorVerdict.HEALTHY} else ExitCode.FAILED


def _document(fabric: Fabric, judgement: Judgement, measured: float | None) -> dict[str, Any]:
    """Return what `--json` prints; null stands for no bound, as JSON has no infinity."""
    wanted = judgement.floor
    causes = [asdict(cause) for cause in judgement.likely_causes]
    for cause in causes:
        for name in ("expected_ratio", "expected_gb_s"):
            cause[name] = [_finite(value) for value in cause[name]]
    own = ("nodes", "gpus_per_node", "rails", "link_gbps", "collective", "intra_node_gb_s")
    return {
        **{name: getattr(fabric, name) for name in own},
        "nic_slot": fabric.pcie and str(fabric.pcie),
        "gpu_slot": str(fabric.gpu_slot),
        "ceiling_gb_s": round(wanted.ceiling_gb_s, 3),
        "floor_gb_s": round(wanted.floor_gb_s, 3),
        "most_gb_s": _finite(wanted.most_gb_s),
        "algorithm": wanted.algorithm,
        "candidates": list(wanted.candidates),
        "measured_gb_s": measured,
        "verdict": judgement.verdict,
        "likely_causes": causes,
        "notes": list(judgement.notes),
        "derivation": f"{judgement.sentence}. {wanted.derivation}",
    }


def _finite(value: float) -> float | None:
    return None if math.isinf(value) else round(value, 3)


def _lines(judgement: Judgement, at: str) -> Iterator[str]:
    """Yield the verdict with the size that it is for, its derivation, and the likely causes."""
    verdict = f": {judgement.verdict}" if judgement.verdict else ""
    yield f"{judgement.sentence}{verdict} {at}"
    yield judgement.floor.derivation
    yield from judgement.notes
    if judgement.likely_causes:
        yield "Likely causes:"
    for cause in judgement.likely_causes:
        low, high = cause.expected_gb_s
        up_to = "or more" if math.isinf(high) else f"to {format_gb_s(high)}"
        yield f"  {cause.cause}: {format_gb_s(low)} {up_to} ({cause.source})"
        yield f"    check: {cause.check}"
