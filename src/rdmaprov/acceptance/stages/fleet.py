"""The stage `fleet`: everything at once, with its evidence.

Where a site has NCCL run its own diagnostics, since 2.31, they are part of it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from rdmaprov.acceptance.at_fault import run as blame
from rdmaprov.acceptance.at_fault import wrong_sums
from rdmaprov.acceptance.evidence import floor as fleet_floor
from rdmaprov.acceptance.evidence import judge, measure, proof
from rdmaprov.acceptance.evidence import judge as evidence
from rdmaprov.acceptance.evidence.judge import judge_tuner
from rdmaprov.acceptance.launchers import choice
from rdmaprov.acceptance.options import Options
from rdmaprov.acceptance.paths import judge as paths
from rdmaprov.acceptance.preflight import gpus as gpu_checks
from rdmaprov.acceptance.preflight import needs as preflight
from rdmaprov.acceptance.preflight.gate_site import GateSite
from rdmaprov.acceptance.ranks import jobs, rail_map
from rdmaprov.acceptance.ranks import nccl_logs as node_logs
from rdmaprov.acceptance.ranks.launch import JobRunner
from rdmaprov.acceptance.ranks.plan import GateJob, JobPlane
from rdmaprov.acceptance.ranks.run import JobRun
from rdmaprov.acceptance.result import GLOO_NOTE, GateResult
from rdmaprov.acceptance.stages import over_time
from rdmaprov.bandwidth import rates
from rdmaprov.boundary import Document
from rdmaprov.finding.finding import Finding
from rdmaprov.inventory import Node
from rdmaprov.nccl_log.diagnosis import Diagnosis, conclude
from rdmaprov.nccl_log.matrix import Matrix
from rdmaprov.words import duration

Keep = Callable[[str, str], Path | None]


def fleet_job(site: GateSite, options: Options) -> GateJob:
    """Return the job of all nodes that take part."""
    wanted = options.sizes or jobs.default_sizes(site.backend, preflight.free_bytes(site.facts))
    return jobs.fleet_job(site, wanted, options.pairs)


def again_job(site: GateSite, options: Options, plane: str, sizes: int, after: int) -> GateJob:
    """Return the job of all nodes once more, in another environment: its largest sizes alone.

    Args:
        after: the how many-th job it can be after the first one, whose port may still be in
            TIME_WAIT; a site that has one port for all keeps it.
    """
    job = fleet_job(site, options)
    sweep = replace(job.tasks[0], plane=plane, sizes=job.tasks[0].sizes[-sizes:])
    fixed = site.nodes[0].get("torch_runtime_acceptance_port")
    port = job.port if fixed else job.port + after
    return replace(job, port=port, planes=(JobPlane(plane),), tasks=(sweep,))


def fleet_line(job: GateJob, limit_s: float) -> str:
    """Return what the stage is about to do, as one line."""
    wanted = job.tasks[0].sizes
    first, last = rates.format_size(wanted[0]), rates.format_size(wanted[-1])
    names = ", ".join(plane.name for plane in job.planes)
    return (
        f"fleet: all-reduce of {job.world} ranks over {job.backend}, {first} to {last}, "
        f"{names}; time limit {duration(limit_s)}"
    )


def run_fleet(runner: JobRunner, job: GateJob, options: Options) -> JobRun:
    """Return the run of all nodes."""
    (ran,) = runner.run([job], options.limit_s)
    return ran


def collect_evidence(
    result: GateResult,
    site: GateSite,
    before: Mapping[str, Document],
    after: Mapping[str, Document],
    keep: Keep,
) -> None:
    """Add what the run of all nodes showed to the result."""
    assert result.ran is not None  # noqa: S101 - it has just run
    ran = result.ran
    result.findings += blame.findings(ran, rail_map.site_map(site.nodes, site.facts))
    result.findings += wrong_sums.findings(ran)
    result.findings += paths.lossy_paths(ran)
    result.findings += paths.stray_traffic(ran)
    result.findings += paths.slow_rails(ran)
    result.notes += [measured_with(site), *straggler_notes(ran)]
    result.findings += leftover_processes(ran)
    result.findings += skipped_sizes(ran)
    result.findings += proof.findings(ran) if ran.good else ()
    is_nccl = site.backend == "nccl"
    due = sum(event["due_bytes"] for event in ran.events_of("moved")[:1]) if ran.good else 0
    own = {name: node.left or () for name, node in ran.nodes.items()}
    result.rails, found = evidence.judge_counters(site, before, after, due if is_nccl else 0, own)
    result.findings += found
    over_time.judge_samples(result, site, keep)
    if is_nccl:
        judge_nccl(result, site, ran, keep)
    else:
        result.notes.append(GLOO_NOTE)
        result.findings += _beside_gpus(site)
    result.findings[:] = evidence.excuse(result.findings, gpu_checks.disturbed(after, own))


def measured_with(site: GateSite) -> str:
    """Return with which torch, NCCL and configuration the ranks ran: other jobs may have others."""
    found = set()
    for node in site.nodes:
        image, of = choice.image_of(node), site.facts[node.name].get("torch", {})
        place = f"in {image}" if image else "in no container of Slurm's"
        found.add(f"torch {of.get('torch')}, NCCL {of.get('nccl') or 'none'}, {place}")
    said = f"measured with {'; '.join(sorted(found))}, and /etc/nccl.conf there"
    return f"{said}: jobs in containers may have others (roles/nccl/README.md, Containers)"


def _beside_gpus(site: GateSite) -> Iterator[Finding]:
    """Yield the nodes whose GPUs have a part in no collective over gloo."""
    names = tuple(name for name, facts in site.facts.items() if facts["gpus"]["gpus"])
    if names:
        what = "gloo measures neither their GPUs nor RDMA"
        remedy = "Run without --backend gloo"
        yield Finding("backend.gloo", what, remedy, proven=False, level="fleet", nodes=names)


def judge_nccl(result: GateResult, site: GateSite, ran: JobRun, keep: Keep) -> None:
    """Add what NCCL's logs and the floor say."""
    logs = node_logs.read_run(ran, keep)
    choices = logs.matrix.choices
    result.used_mnnvl = shows_mnnvl(logs.matrix)
    result.findings += evidence.judge_transports(site, logs)
    result.findings += judge_tuner(site, logs)
    found, notes = judge_diagnostics(site, logs.matrix)
    result.findings += found
    result.notes += notes
    found, notes = judge.judge_sharp(site, ran, logs.matrix, result.intra_node_gb_s)
    result.findings += found
    result.notes += notes
    result.used_sharp = bool(notes)
    result.judgement, slow = fleet_floor.judge(site, ran, choices, result.intra_node_gb_s)
    result.findings += slow
    if ran.good:
        slow, notes = fleet_floor.judge_others(site, ran, result.intra_node_gb_s)
        result.findings += slow
        result.notes += notes
    result.notes += result.judgement.notes if result.judgement else ()


def shows_mnnvl(matrix: Matrix) -> bool:
    """Return whether NCCL's logs show NVLink between nodes: `via P2P/MNNVL` (2.20 and later)."""
    return any("MNNVL" in kind for each in matrix.members for kind in each.local)


def keep_errors(ran: JobRun, keep: Keep) -> None:
    """Write what nodes wrote to standard error beside the run's own log."""
    for name, node in ran.nodes.items():
        if node.errors:
            keep(f"{name}.err", node.errors)


def straggler_notes(ran: JobRun) -> Iterable[str]:
    """Yield notes on stragglers: no fault by itself."""
    for plane in ran.job.planes:
        for rank, us in measure.stragglers(ran, plane.name).items():
            node = ran.job.node_of(rank)
            yield (
                f"{plane.name}: rank {rank} on {node} is a straggler, {us / 1000:.1f} ms behind "
                f"the others in small all-reduces. On {node}, check the CPU load and governor"
            )
    for rank, us in measure.slow_in_collectives(ran).items():
        node = ran.job.node_of(rank)
        yield (
            f"rank {rank} on {node} is slow inside each collective, {us / 1000:.1f} ms with any "
            f"partner. On {node}, check the CPU load, its governor and what runs on the GPU"
        )


def leftover_processes(ran: JobRun) -> Iterator[Finding]:
    """Yield nodes on which processes of the run may be left."""
    for name, node in ran.nodes.items():
        if node.left:
            what = f"processes {', '.join(map(str, node.left))} of the run could not be ended"
            remedy = f"They are stuck in the kernel: drain {name}, read dmesg -T there, reboot it"
            yield Finding("run.leftover", what, remedy, name)
        elif node.left is None and not node.lost:
            what = "processes of the run may be left on it"
            yield Finding(
                "run.leftover",
                what,
                f"On {name}, run: pgrep -f rdmaprov-accept",
                name,
                proven=False,
            )


def skipped_sizes(ran: JobRun) -> Iterator[Finding]:
    """Yield the sizes that were not measured within a plane's time limit."""
    for event in ran.events_of("cut"):
        if event["rank"] == 0:
            rail = next(p.rail for p in ran.job.planes if p.name == event["plane"])
            size = rates.format_size(event["bytes"])
            what = f"sizes from {size} down: not measured, larger ones took {event['used_s']:.0f} s"
            remedy = "Run rdmaprov accept with fewer --sizes"
            yield Finding("sizes.cut", what, remedy, rail=rail, proven=False)


def judge_diagnostics(site: GateSite, matrix: Matrix) -> tuple[list[Finding], list[str]]:
    """Return the findings that NCCL's diagnostics amount to, each with its nodes, and notes.

    NCCL names a rank by its number in a communicator. Only that of all ranks has the numbers of the
    job; what a smaller one says of ranks is found without a node.
    """
    hosts = {_short(str(site.facts[node.name]["hostname"])): node for node in site.nodes}
    faults, notes = conclude(matrix.diagnostics)
    return [_finding(site, hosts, fault) for fault in faults], notes


def _finding(site: GateSite, hosts: Mapping[str, Node], fault: Diagnosis) -> Finding:
    nodes = tuple(dict.fromkeys(_names(site, hosts, fault)))
    rail = None
    if fault.hca and len(nodes) == 1:
        rail = _rail(site, nodes[0], fault.hca)
    what = fault.what
    if fault.ranks:
        what += f" (ranks {', '.join(map(str, fault.ranks))})"
    return Finding(
        "nccl.diagnostics",
        what,
        fault.remedy.capitalize(),
        rail=rail,
        proven=fault.proven,
        nodes=nodes,
    )


def _names(site: GateSite, hosts: Mapping[str, Node], fault: Diagnosis) -> Iterator[str]:
    for host in fault.hosts:
        if _short(host) in hosts:
            yield hosts[_short(host)].name
    if fault.size == len(site.nodes) * site.per_node:
        for rank in fault.ranks:
            if rank < fault.size:
                yield site.nodes[rank // site.per_node].name


def _rail(site: GateSite, node: str, hca: str) -> int | None:
    devices = [rail["rdma"] for rail in site.facts[node]["rails"]]
    return devices.index(hca) if hca in devices else None


def _short(hostname: str) -> str:
    return hostname.partition(".")[0]
