"""The floor of a run over NCCL: its fabric, what a node reaches alone, and NCCL's own choice."""

from collections.abc import Collection, Iterator
from dataclasses import replace

from rdmaprov.acceptance.evidence import measure
from rdmaprov.acceptance.evidence.measure import SweepRow
from rdmaprov.acceptance.paths.pci import with_slots
from rdmaprov.acceptance.preflight import needs as preflight
from rdmaprov.acceptance.preflight.gate_site import GateSite
from rdmaprov.acceptance.ranks import jobs
from rdmaprov.acceptance.ranks.run import JobRun
from rdmaprov.bandwidth import floor, floor_model
from rdmaprov.bandwidth.ceiling import ALGORITHMS
from rdmaprov.bandwidth.fabric import Fabric, FabricError
from rdmaprov.bandwidth.floor_model import Judgement
from rdmaprov.bandwidth.gpus import IntraNode, intra_node
from rdmaprov.bandwidth.site import site_fabric
from rdmaprov.finding.finding import Finding
from rdmaprov.nccl_log.tuning import AlgorithmChoice, taken_algorithm

# The floor is of messages that fill the links: nccl-tests' own reports are of these.
MIN_FLOOR_BYTES = 1 << 30
_FUNCTIONS = {"all_reduce": "AllReduce"}
_OTHERS = {name: {"all_to_all": "alltoall"}.get(name, name) for name in jobs.OTHERS}
# Of its floor: one bad path of thousands holds an all-to-all at a tenth; crowded spines lower it by
# less. Our choice.
FAR_BELOW = 0.7
# CollNet is SHARP in the switches; what else is no algorithm of the floor's is not known to it.
_COLLNET = {"collnetdirect": "sharp", "collnetchain": "sharp"}


def judge(
    site: GateSite,
    ran: JobRun,
    choices: Collection[AlgorithmChoice] = (),
    intra_node_gb_s: float = 0.0,
) -> tuple[Judgement | None, list[Finding]]:
    """Return the judgement of the fleet's largest message by the floor, and what is wrong."""
    fabric = fabric_of(site, ran, intra_node_gb_s)
    row = fleet_row(ran)
    measured = row if row and row.bytes >= MIN_FLOOR_BYTES else None
    try:
        demanded = _demanded(site, choices, fabric, measured)
    except FabricError as error:
        what = f"the floor is not verified: {error.message}"
        remedy = "Let rdmaprov accept measure each node alone first (--stages host,fleet)"
        return None, [Finding("bandwidth.floor", what, remedy, proven=False)]
    if measured is None:
        what = "the floor is not verified: no message of 1 GiB or more was measured"
        remedy = "Run rdmaprov accept without --sizes"
        return floor.judge(fabric, demanded), [
            Finding("bandwidth.floor", what, remedy, proven=False)
        ]
    judgement = floor.judge(fabric, demanded, measured.busbw_gb_s)
    return judgement, list(_findings(judgement, is_known=not fabric.is_guessed))


def judge_others(
    site: GateSite, ran: JobRun, intra_node_gb_s: float = 0.0
) -> tuple[list[Finding], list[str]]:
    """Return which other collectives of all ranks are slow, and notes on those that are near it.

    Fewer fleets have published them than all-reduces, so one that is a little below its floor is a
    note. Where the floor has no formula, as within one NVLink domain, nothing is said.
    """
    found, notes = [], []
    fabric = fabric_of(site, ran, intra_node_gb_s)
    for name, its in _OTHERS.items():
        row = fleet_row(ran, name)
        if row is None or row.bytes < MIN_FLOOR_BYTES:
            continue
        own = replace(fabric, collective=its)
        try:
            judgement = floor.judge(own, floor.derive(own, size_bytes=row.bytes), row.busbw_gb_s)
        except FabricError:
            continue
        if judgement.verdict is not floor_model.FloorVerdict.SLOW:
            continue
        if row.busbw_gb_s >= FAR_BELOW * judgement.floor.floor_gb_s:
            notes.append(judgement.sentence)
            continue
        values: dict[str, float | str] = {"gb_s": row.busbw_gb_s, "collective": name}
        remedy = (
            "An all-reduce hides one bad path, as only neighbors communicate: run rdmaprov accept "
            "--pairs with perftest on the nodes, which tests each path"
        )
        found.append(
            Finding(
                "bandwidth.collective",
                judgement.sentence,
                remedy,
                proven=not own.is_guessed,
                values=values,
            )
        )
    return found, notes


def _demanded(
    site: GateSite, choices: Collection[AlgorithmChoice], fabric: Fabric, row: SweepRow | None
) -> floor_model.Floor:
    first = site.nodes[0]
    size = {"size_bytes": row.bytes} if row else {}
    return floor.derive(
        fabric,
        taken(choices, row) if row else "auto",
        float(first.get("fabric_floor_gb_s") or 0.0),
        str(first.get("fabric_floor_reason") or ""),
        **size,
    )


def _findings(judgement: Judgement, *, is_known: bool) -> Iterator[Finding]:
    if judgement.verdict is not floor_model.FloorVerdict.HEALTHY:
        causes = "; ".join(cause.cause for cause in judgement.likely_causes)
        what = judgement.sentence + ("" if is_known else "; nodes do not show the GPUs' PCIe slots")
        remedy = f"Likely causes: {causes or 'none known'}"
        yield Finding("bandwidth.floor", what, remedy, proven=is_known)


def fleet_row(ran: JobRun, collective: str = "all_reduce") -> SweepRow | None:
    """Return the largest all-reduce, or another collective, of all ranks; None if none ran."""
    found = measure.rows(ran, collective=collective)
    rows = [row for row in found if len(row.ranks) == ran.job.world]
    return measure.largest_row(rows, ran.job.planes[0].name)


def taken(choices: Collection[AlgorithmChoice], row: SweepRow) -> str:
    """Return the algorithm that NCCL took for a row, as the floor names it; `auto` if unknown."""
    found = taken_algorithm(choices, _FUNCTIONS[row.collective], row.bytes, len(row.ranks))
    name = _COLLNET.get(found or "", found or "auto")
    return name if name in ALGORITHMS else "auto"


def fabric_of(site: GateSite, ran: JobRun, intra_node_gb_s: float = 0.0) -> Fabric:
    """Return the fabric of a run: with NVLink domains, unless the run did without them."""
    per_node = preflight.gpus_per_node(site.facts)
    bare = site_fabric(site.nodes, per_node, mnnvl=uses_mnnvl(ran))
    return with_gpus(site, with_slots(bare, site.nodes, site.facts), intra_node_gb_s)


def with_gpus(site: GateSite, fabric: Fabric, intra_node_gb_s: float) -> Fabric:
    """Return a fabric with what the GPUs of a node reach alone, as measured, else as published."""
    names = {
        str(gpu["name"])
        for node in site.nodes
        for gpu in site.facts[node.name]["gpus"]["gpus"]
        if gpu.get("name")
    }
    alone = intra_node(names, fabric.gpu_slot)
    if intra_node_gb_s:
        alone = IntraNode(intra_node_gb_s, alone.algorithm if alone else "")
    if alone is None:
        return fabric
    return replace(fabric, intra_node_gb_s=alone.gb_s, intra_node_by=alone.algorithm)


def uses_mnnvl(ran: JobRun) -> bool:
    """Return whether NVLink between nodes was allowed."""
    own = ran.job.environment.values()
    return not any(each.get("NCCL_MNNVL_ENABLE") == "0" for each in own)
