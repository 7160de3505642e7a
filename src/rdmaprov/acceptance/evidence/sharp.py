"""Whether the switches reduced (SHARP), where a site wants that: by NCCL's word, and by number."""

from __future__ import annotations

from rdmaprov.acceptance.evidence import floor as fleet_floor
from rdmaprov.acceptance.evidence.measure import SweepRow
from rdmaprov.acceptance.preflight.gate_site import GateSite
from rdmaprov.acceptance.ranks.run import JobRun
from rdmaprov.bandwidth.ceiling import network_gb_s
from rdmaprov.bandwidth.fabric import FabricError
from rdmaprov.bandwidth.sizes import format_size
from rdmaprov.finding.finding import Finding
from rdmaprov.nccl_log import collnet
from rdmaprov.nccl_log.matrix import Matrix
from rdmaprov.nccl_log.tuning import taken_algorithm

# What NCCL can do without the switches. On two nodes a tree moves as much as SHARP, on three a
# third more than a ring; from four on, none of them moves more than a ring.
_WITHOUT = ("ring", "tree", "nvlstree")
# How notes on a run that used it begin.
USED = "SHARP:"


def judge_sharp(
    site: GateSite, ran: JobRun, matrix: Matrix, intra_node_gb_s: float
) -> tuple[list[Finding], list[str]]:
    """Return what is wrong with SHARP where the site wants it, and notes if it was used.

    Args:
        intra_node_gb_s: bus bandwidth of an all-reduce inside a node; 0: not known.
    """
    wanted = any(node.get("fabric_sharp") == "wanted" for node in site.nodes)
    row = fleet_floor.fleet_row(ran)
    if not wanted or row is None or len(site.nodes) < 2:
        return [], []
    most = _most_gb_s(site, ran, intra_node_gb_s)
    if most is not None and row.busbw_gb_s > most:
        return [], [f"{USED} proven by number: {_carried(row, most)}"]
    algorithm = taken_algorithm(matrix.choices, "AllReduce", row.bytes, len(row.ranks))
    is_connected = collnet.is_connected(matrix)
    if algorithm in collnet.SWITCH_ALGORITHMS and is_connected:
        said = f"{USED} NCCL took {algorithm} for {format_size(row.bytes)}; by number unknown: "
        return [], [said + _carried(row, most)]
    if algorithm is None and is_connected:
        what = "whether SHARP is used is not verified: NCCL's log has no TUNING line of this size"
        remedy = "Use NCCL 2.20 or later, and leave NCCL_DEBUG_SUBSYS to rdmaprov accept"
        return [Finding("sharp.unused", what, remedy, proven=False, level="fleet")], []
    return [_not_used(matrix, algorithm, row)], []


def _not_used(matrix: Matrix, algorithm: str | None, row: SweepRow) -> Finding:
    why = collnet.obstacle(matrix)
    took = f"NCCL took {algorithm}" if algorithm else "CollNet was not set up"
    what = f"SHARP is wanted (fabric_sharp) and not used: {took} for {format_size(row.bytes)}"
    what += f" ({why.seen})" if why.seen else ""
    return Finding("sharp.unused", what, f"Likely cause: {why.cause}", level="fleet")


def _carried(row: SweepRow, most: float | None) -> str:
    carries = "is not known" if most is None else f"is at most {most:.1f} GB/s"
    return f"{row.busbw_gb_s:.1f} GB/s, and what rings and trees carry {carries}"


def _most_gb_s(site: GateSite, ran: JobRun, intra_node_gb_s: float) -> float | None:
    try:
        fabric = fleet_floor.fabric_of(site, ran, intra_node_gb_s)
        return max(network_gb_s(fabric, name) for name in _WITHOUT)
    except FabricError:
        return None
