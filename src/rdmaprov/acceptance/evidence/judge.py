"""What a run over NCCL must show beside its numbers: the transport, the counters, the floor."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rdmaprov.acceptance.evidence import floor as fleet_floor
from rdmaprov.acceptance.preflight import gpus as gpu_checks
from rdmaprov.acceptance.preflight.gate_site import GateSite
from rdmaprov.acceptance.ranks.nccl_logs import RunLogs
from rdmaprov.acceptance.ranks.run import JobRun
from rdmaprov.bandwidth import history
from rdmaprov.bandwidth.site import nvlink_nodes
from rdmaprov.boundary import Document
from rdmaprov.finding.finding import Finding
from rdmaprov.nccl_log import transport
from rdmaprov.nccl_log.transport import Transport
from rdmaprov.nccl_log.tuning import AlgorithmChoice
from rdmaprov.rail_counters import link_errors
from rdmaprov.rail_counters import traffic as counters
from rdmaprov.rail_counters.traffic import RailTraffic

_TRANSPORTS = {"roce": Transport.ROCE, "infiniband": Transport.IB}
_NO_LOG_REMEDY = "Read the errors of the ranks, on the controller: logs/*.err of this run"


def judge_transports(site: GateSite, logs: RunLogs) -> Iterator[Finding]:
    """Yield what differs between the transport in NCCL's logs and the site, each with its node.

    Of a node without a log nothing is known, and its rails are not accused.
    """
    if not logs.nodes:
        yield Finding("nccl.log", "the transport: NCCL wrote no log", _NO_LOG_REMEDY, proven=False)
        return
    logged = [node for node in site.nodes if node.name in logs.nodes]
    if missing := tuple(node.name for node in site.nodes if node not in logged):
        what = "its transport: no log of NCCL could be fetched from it"
        yield Finding("nccl.log", what, _NO_LOG_REMEDY, proven=False, level="node", nodes=missing)
    hosts = {str(site.facts[n.name]["hostname"]).partition(".")[0]: n for n in logged}
    hcas = {
        host: [rail["rdma"] for rail in site.facts[n.name]["rails"][: len(n.compute_rails)]]
        for host, n in hosts.items()
    }
    first = site.nodes[0]
    wants_gdr = str(first.get("peermem_mode")) != "off"
    kind = _TRANSPORTS[str(first.get("fabric_kind"))]
    one_domain = _domain(site) >= len(site.nodes) > 1
    for problem in transport.judge(
        logs.matrix, kind, hcas, wants_gdr, every_rank=not missing, one_domain=one_domain
    ):
        node = hosts[problem.node].name if problem.node in hosts else ""
        yield replace(problem, node=node, nodes=(), level="")


def judge_counters(
    site: GateSite,
    before: Mapping[str, Document],
    after: Mapping[str, Document],
    due_bytes: int,
    own: Mapping[str, Sequence[int]] | None = None,
) -> tuple[list[RailTraffic], list[Finding]]:
    """Return the traffic of the rails, and what is wrong with it.

    Args:
        before: what the reader returned before the run, by node.
        due_bytes: what each node had to send; 0 if RDMA moved nothing.
        own: processes of the run that could not be ended, by node.
    """
    rails: list[RailTraffic] = []
    found: list[Finding] = []
    for node in site.nodes:
        if node.name not in after:
            what = "its counters after the run: no answer"
            found.append(
                Finding("node.counters", what, "Check whether it is up", node.name, proven=False)
            )
            continue
        moved = counters.rail_traffic(node, before[node.name], after[node.name])
        rails += moved
        found += counters.overflows(node.name, before[node.name], after[node.name])
        if due_bytes:
            found += counters.management(node, before[node.name], after[node.name], due_bytes)
            if node.get("fabric_kind") == "roce":
                found += counters.priorities(node, moved)
    lossless = site.nodes[0].get("fabric_lossless_priority")
    leaves = {node.name: str(node.get("fabric_leaf") or "") for node in site.nodes}
    found += link_errors.findings(
        rails,
        None if lossless is None else int(lossless),
        {name: leaf for name, leaf in leaves.items() if leaf},
    )
    if due_bytes:
        # Nodes of one NVLink domain reduce by NVLink first, and share the traffic between domains.
        domain = _domain(site)
        due = 0 if domain >= len(site.nodes) > 1 else due_bytes // domain
        found += counters.balance(rails, due)
        found += counters.volume(rails, due)
    others = gpu_checks.disturbed(after, own or {})
    return rails, gpu_checks.disturbance_findings(others) + excuse(found, others)


def _domain(site: GateSite) -> int:
    """Return how many nodes may share NVLink in a run."""
    return nvlink_nodes(site.nodes) if site.mnnvl else 1


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


def compare_with_history(
    site: GateSite, ran: JobRun, choices: Collection[AlgorithmChoice], path: Path, time: str
) -> list[str]:
    """Return a note if the fleet reaches less than it did, and add the result to its history.

    Args:
        time: when it ran, ISO 8601.
    """
    row = fleet_floor.fleet_row(ran)
    if row is None:
        return []
    kind = history.kind(
        fleet_floor.fabric_of(site, ran), row.bytes, fleet_floor.taken(choices, row)
    )
    now = history.Measurement(time, kind, row.busbw_gb_s)
    drop = history.drop(history.read(path), now)
    notes = [f"{row.busbw_gb_s:.4g} GB/s is {drop} ({path})"] if drop else []
    try:
        history.append(path, now)
    except OSError as error:
        notes.append(f"not added to the history: {path}: {error.strerror}")
    return notes
