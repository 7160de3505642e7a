"""What a run over NCCL must show beside its numbers: the transport, the counters, the floor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rdmaprov.acceptance import counters, gpu_checks, link_errors, measure, preflight
from rdmaprov.acceptance.counters import RailTraffic
from rdmaprov.acceptance.finding import Finding
from rdmaprov.acceptance.job_run import JobRun
from rdmaprov.acceptance.jobs import GateSite
from rdmaprov.acceptance.node_logs import log_files
from rdmaprov.acceptance.nodes import Document
from rdmaprov.bandwidth import floor, history
from rdmaprov.bandwidth.floor import Judgement
from rdmaprov.bandwidth.site import site_fabric
from rdmaprov.errors import RdmaprovError
from rdmaprov.nccl_log import transport
from rdmaprov.nccl_log.transport import Transport

# The floor is of messages that fill the links: nccl-tests' own reports are of these.
MIN_FLOOR_BYTES = 1 << 30
_TRANSPORTS = {"roce": Transport.ROCE, "infiniband": Transport.IB}
_NO_LOG_REMEDY = "Read the errors of the ranks, on the controller: logs/*.err of this run"


def save_logs(ran: JobRun, keep: Callable[[str, str], Path | None]) -> list[Path]:
    """Return NCCL's logs of a run, kept as files by node and process."""
    found = []
    for name, node in ran.nodes.items():
        for file, text in log_files(node):
            path = keep(f"{name}.{file}", text)
            found += [path] if path is not None else []
    return found


def judge_transports(site: GateSite, files: Sequence[Path]) -> Iterator[Finding]:
    """Yield what differs between the transport in NCCL's logs and the site."""
    if not files:
        yield Finding("the transport: NCCL wrote no log", _NO_LOG_REMEDY, proven=False)
        return
    hcas = {
        str(facts["hostname"]).partition(".")[0]: [
            rail["rdma"] for rail in facts["rails"][: len(node.compute_rails)]
        ]
        for node, facts in ((node, site.facts[node.name]) for node in site.nodes)
    }
    first = site.nodes[0]
    wants_gdr = str(first.get("peermem_mode")) != "off"
    try:
        matrix = transport.read_matrix(files)
    except RdmaprovError as error:
        yield Finding(error.message, error.hint, proven=False)
        return
    kind = _TRANSPORTS[str(first.get("fabric_kind"))]
    for problem in transport.judge(matrix, kind, hcas, wants_gdr):
        yield Finding(problem.message, problem.remedy, proven=problem.proven)


def judge_counters(
    site: GateSite,
    before: Mapping[str, Document],
    after: Mapping[str, Document],
    due_bytes: int,
    own: Mapping[str, Sequence[int]] | None = None,
) -> tuple[list[RailTraffic], list[Finding]]:
    """Return the traffic of the rails, and what is wrong with it.

    Args:
        site: what is known.
        before: what the reader returned before the run, by node.
        after: the same after it.
        due_bytes: what each node had to send; 0 if RDMA moved nothing.
        own: processes of the run that could not be ended, by node.

    """
    rails: list[RailTraffic] = []
    found: list[Finding] = []
    for node in site.nodes:
        if node.name not in after:
            what = "its counters after the run: no answer"
            found.append(Finding(what, "Check whether it is up", node.name, proven=False))
            continue
        moved = counters.rail_traffic(node, before[node.name], after[node.name])
        rails += moved
        if due_bytes:
            found += counters.management(node, before[node.name], after[node.name], due_bytes)
            if node.get("fabric_kind") == "roce":
                found += counters.priorities(node, moved)
    lossless = site.nodes[0].get("fabric_lossless_priority")
    found += link_errors.findings(rails, None if lossless is None else int(lossless))
    if due_bytes:
        found += counters.balance(rails)
        found += counters.volume(rails, due_bytes)
    others = gpu_checks.disturbed(after, own or {})
    return rails, gpu_checks.disturbance_findings(others) + excuse(found, others)


def excuse(found: Sequence[Finding], others: Mapping[str, Sequence[str]]) -> list[Finding]:
    """Return findings as unknown where another job ran beside the run, which may be the reason.

    Args:
        found: what was measured: of a disturbed node, or of the fleet as a whole.
        others: by disturbed node, the processes of the other job.

    """
    if not others:
        return list(found)
    why = f" (another job ran on {', '.join(list(others)[:4])})"
    return [
        replace(each, what=each.what + why, proven=False)
        if each.proven and (not each.nodes or set(each.nodes) & others.keys())
        else each
        for each in found
    ]


def judge_floor(site: GateSite, ran: JobRun) -> tuple[Judgement | None, list[Finding]]:
    """Return the judgement of the largest message by the floor, and its finding, if it is one."""
    fabric = site_fabric(site.nodes, preflight.gpus_per_node(site.facts))
    first = site.nodes[0]
    wanted = float(first.get("fabric_floor_gb_s") or 0.0)
    reason = str(first.get("fabric_floor_reason") or "")
    demanded = floor.derive(fabric, site_floor_gb_s=wanted, reason=reason)
    row = measure.largest_row(measure.rows(ran), ran.job.planes[0].name)
    if row is None or row.bytes < MIN_FLOOR_BYTES:
        what = "the floor is not verified: no message of 1 GiB or more was measured"
        remedy = "Run rdmaprov accept without --sizes"
        return floor.judge(fabric, demanded), [Finding(what, remedy, proven=False)]
    judgement = floor.judge(fabric, demanded, row.busbw_gb_s)
    if judgement.verdict is floor.FloorVerdict.HEALTHY:
        return judgement, []
    causes = "; ".join(cause.cause for cause in judgement.likely_causes)
    return judgement, [Finding(judgement.sentence, f"Likely causes: {causes or 'none known'}")]


def compare_with_history(site: GateSite, ran: JobRun, path: Path, time: str) -> list[str]:
    """Return a note if the fleet reaches less than it did, and add the result to its history.

    Args:
        site: what is known.
        ran: a run that ended well.
        path: the fleet's history.
        time: when it ran, ISO 8601.

    """
    row = measure.largest_row(measure.rows(ran), ran.job.planes[0].name)
    if row is None:
        return []
    fabric = site_fabric(site.nodes, preflight.gpus_per_node(site.facts))
    now = history.Measurement(time, history.kind(fabric, row.bytes), row.busbw_gb_s)
    drop = history.drop(history.read(path), now)
    notes = [f"{row.busbw_gb_s:.4g} GB/s is {drop} ({path})"] if drop else []
    try:
        history.append(path, now)
    except OSError as error:
        notes.append(f"not added to the history: {path}: {error.strerror}")
    return notes
