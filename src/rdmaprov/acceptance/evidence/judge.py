"""What a run over NCCL must show beside its numbers: the transport, the counters, the floor."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from rdmaprov.acceptance.evidence import floor as fleet_floor
from rdmaprov.acceptance.evidence.measure import SweepRow
from rdmaprov.acceptance.preflight import gpus as gpu_checks
from rdmaprov.acceptance.preflight.gate_site import GateSite
from rdmaprov.acceptance.ranks.nccl_logs import RunLogs
from rdmaprov.acceptance.ranks.run import JobRun
from rdmaprov.acceptance.remedies import first_line
from rdmaprov.bandwidth.ceiling import network_gb_s
from rdmaprov.bandwidth.fabric import FabricError
from rdmaprov.bandwidth.rates import format_size
from rdmaprov.bandwidth.site import nvlink_nodes
from rdmaprov.boundary import Document
from rdmaprov.finding.finding import Finding
from rdmaprov.inventory import Node
from rdmaprov.nccl_log import transport
from rdmaprov.nccl_log.matrix import Matrix, Process
from rdmaprov.nccl_log.transport import Transport
from rdmaprov.nccl_log.tuning import taken_algorithm
from rdmaprov.rail_counters import link_errors
from rdmaprov.rail_counters import traffic as counters
from rdmaprov.rail_counters.traffic import RailTraffic

# What NCCL can do without the switches. On two nodes a tree moves as much as SHARP, on three a
# third more than a ring; from four on, none of them moves more than a ring.
_WITHOUT = ("ring", "tree", "nvlstree")
# How notes on a run that used it begin.
SHARP_USED = "SHARP:"
_TRANSPORTS = {"roce": Transport.ROCE, "infiniband": Transport.IB}
_NO_LOG_REMEDY = "Read the errors of the ranks, on the controller: logs/*.err of this run"


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
        return [], [f"{SHARP_USED} proven by number: {_carried(row, most)}"]
    algorithm = taken_algorithm(matrix.choices, "AllReduce", row.bytes, len(row.ranks))
    is_connected = transport.is_connected(matrix)
    if algorithm in transport.SWITCH_ALGORITHMS and is_connected:
        said = (
            f"{SHARP_USED} NCCL took {algorithm} for {format_size(row.bytes)}; by number unknown: "
        )
        return [], [said + _carried(row, most)]
    if algorithm is None and is_connected:
        what = "whether SHARP is used is not verified: NCCL's log has no TUNING line of this size"
        remedy = "Use NCCL 2.20 or later, and leave NCCL_DEBUG_SUBSYS to rdmaprov accept"
        return [Finding("sharp.unused", what, remedy, proven=False, level="fleet")], []
    return [_not_used(matrix, algorithm, row)], []


def _not_used(matrix: Matrix, algorithm: str | None, row: SweepRow) -> Finding:
    why = transport.obstacle(matrix)
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


def judge_tuner(site: GateSite, logs: RunLogs) -> Iterator[Finding]:
    """Yield the nodes on which the site's tuner plugin has no effect.

    NCCL keeps its own tuner if it cannot load a plugin.
    """
    by_host: dict[str, list[Process]] = {}
    for process in logs.matrix.processes:
        by_host.setdefault(process.host.partition(".")[0], []).append(process)
    for node in site.nodes:
        plugin = str(node.get("nccl_tuner_plugin") or "")
        if not plugin or plugin == "none" or node.name not in logs.nodes:
            continue
        host = str(site.facts[node.name]["hostname"]).partition(".")[0]
        yield from _judge_node(node, plugin, [p.hints for p in by_host.get(host, ())])


def _judge_node(
    node: Node, plugin: str, processes: Sequence[Mapping[str, str]]
) -> Iterator[Finding]:
    without = [hints for hints in processes if "tuner" not in hints]
    failed = [hints["no_tuner"] for hints in without if "no_tuner" in hints]
    if failed:
        what = (
            f"NCCL did not load the tuner plugin {plugin}: its log says '{first_line(failed[0])}'"
        )
        remedy = (
            f"On {node.name}, where ranks run, install the library in a directory of the loader's, "
            "or write its path into nccl_tuner_plugin; compare the versions of plugin and NCCL"
        )
        yield Finding("nccl.tuner", what, remedy, node.name)
    elif without or not processes:
        what = f"whether NCCL loaded the tuner plugin {plugin}: its log does not say"
        remedy = f"On {node.name}, check that ranks read /etc/nccl.conf: a container has its own"
        yield Finding("nccl.tuner", what, remedy, node.name, proven=False)


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
    found += judge_rails(site, rails, has_moved=due_bytes > 0)
    if due_bytes:
        # Nodes of one NVLink domain reduce by NVLink first, and share the traffic between domains.
        domain = _domain(site)
        due = 0 if domain >= len(site.nodes) > 1 else due_bytes // domain
        found += counters.balance(rails, due)
        found += counters.volume(rails, due)
    others = gpu_checks.disturbed(after, own or {})
    return rails, gpu_checks.disturbance_findings(others) + excuse(found, others)


def judge_rails(site: GateSite, rails: Sequence[RailTraffic], *, has_moved: bool) -> list[Finding]:
    """Return what counters prove whatever was sent: priorities, if data moved, and errors."""
    found: list[Finding] = []
    of = {name: list(own) for name, own in groupby(rails, lambda each: each.node)}
    for node in site.nodes if has_moved else ():
        if node.get("fabric_kind") == "roce":
            found += counters.priorities(node, of.get(node.name, ()))
    lossless = site.nodes[0].get("fabric_lossless_priority")
    leaves = {node.name: node.leaf for node in site.nodes if node.leaf}
    return found + link_errors.findings(rails, None if lossless is None else int(lossless), leaves)


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
