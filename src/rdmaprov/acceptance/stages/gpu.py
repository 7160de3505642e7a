"""The stage `gpu`: every GPU by itself, all at once: arithmetic, memory, link, exactness.

A GPU is judged by those of its model in the fleet, and a fleet by what its model can do.
"""

import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rdmaprov.acceptance.live.alone import RanksAlone
from rdmaprov.acceptance.preflight import needs as preflight
from rdmaprov.acceptance.preflight.gate_site import GateSite
from rdmaprov.acceptance.ranks import jobs
from rdmaprov.acceptance.ranks.run import JobRun
from rdmaprov.acceptance.stage_report import StageReport
from rdmaprov.acceptance.stages.host import about_node, folded
from rdmaprov.acceptance.stages.measured_gpu import SETTLE, MeasuredGpu, peaks
from rdmaprov.bandwidth.rates import format_percent
from rdmaprov.finding.finding import Finding
from rdmaprov.isolation.compare import BAD_SHARE, GLOO_BAD_SHARE, least_good, reference
from rdmaprov.rail_counters.change_points import change_points
from rdmaprov.words import quantity, some

# Matrices of this side fill a GPU; with them and copies of 1 GiB, a GPU needs 3 GiB. Seconds of
# bf16, of fp8, and of each copy: with torch's start, a node needs less than a minute.
WORK: dict[str, dict[str, Any]] = {
    "nccl": {"size": 8192, "bytes": 1 << 30, "seconds": (20.0, 3.0, 2.0)},
    "gloo": {"size": 256, "bytes": 1 << 20, "seconds": (1.0, 0.1, 0.1)},
}
_ROOM = 5  # of these copies must fit into the free memory
# Of its model's data sheet, what a healthy GPU makes: arithmetic 0.67 to 0.71 on H100 and H200
# at the power cap (docs/one-gpu.md), 0.54 on MI300X (AMD, Measuring Max-Achievable FLOPs); memory
# 0.90. Below these, our choice, a whole fleet is slow.
_LEAST_SHARE = 0.4
_LEAST_MEMORY = 0.75
_LEAST_PEERS = 3  # at the same place of their nodes
# A link that is bad has half of its lanes or of its rate, or less; good ones differ by their NUMA
# node and by what shares their switch. Between them, our choice.
_BAD_LINK = 0.75
# A link within the bit error ratio that PCI Express allows, 10⁻¹², sends 2 packets again while 1.8
# 10¹² bits are copied, as 16 lanes of 5.0 do here; ten times that, our choice, is no chance.
_MOST_REPLAYS = 20


@dataclass(frozen=True)
class GpuRate:
    """A rate by which GPUs are compared."""

    kind: str
    what: str
    unit: str
    remedy: str
    value: Callable[[MeasuredGpu], float]  # of a GPU; 0 where it has none
    least: float = BAD_SHARE  # the share of its peers' below which it is bad
    # compare those at the same place of their nodes: links differ by place
    same_place: bool = False


_CLOCKS = (
    "On {node}, read clocks and limits under load: nvidia-smi -q -d PERFORMANCE,POWER,TEMPERATURE; "
    "then dmesg -T for Xids"
)
_MEMORY = "On {node}, run: nvidia-smi -q -d CLOCK,ROW_REMAPPER,ECC; dmesg -T"
_SLOT = "On {node}, run: lspci -vv (LnkSta of the GPU and of the ports above it); numactl -H"
_BF16 = GpuRate("device.slow", "matrix multiplication", "TFLOP/s", _CLOCKS, lambda g: g.tflops)
_IN_MEMORY = GpuRate(
    "gpu.slow-memory", "memory copies", "GB/s", _MEMORY, lambda g: g.event["memory_gb_s"]
)
RATES = (
    _BF16,
    GpuRate("device.slow", "fp8", "TFLOP/s", _CLOCKS, lambda g: g.event["fp8_tflops"]),
    _IN_MEMORY,
    *(
        GpuRate(
            "gpu.slow-link", f"copies {way} it", "GB/s", _SLOT, value, _BAD_LINK, same_place=True
        )
        for way, value in (
            ("to", lambda g: g.event["to_gpu_gb_s"]),
            ("from", lambda g: g.event["from_gpu_gb_s"]),
        )
    ),
)


def run_gpu(site: GateSite, alone: RanksAlone) -> StageReport:
    """Return what each GPU of each node does by itself."""
    report = StageReport("gpu")
    if site.backend != "nccl":
        report.is_skipped, report.said = True, "no GPU takes part (backend gloo)"
        return report
    work, free = dict(WORK[site.backend]), preflight.free_bytes(site.facts)
    while work["bytes"] * _ROOM > free and work["bytes"] > 1 << 20:
        work["bytes"] //= 2
    judge(report, alone.perform(site, lambda job, number: jobs.gpu_task(job, number, work)))
    return report


def judge(report: StageReport, runs: Sequence[JobRun]) -> None:
    """Add what is wrong with GPUs, and what was measured of each."""
    gpus, silent = [], []
    for ran in runs:
        own = list(_measured(ran))
        gpus += own
        # Ranks that wait for the next stage have not ended, which is no fault.
        bad = [*_hung(ran)] or [*about_node(ran.job.nodes[0], ran)] if ran.has_failed else []
        report.findings += bad
        if not bad and len(own) < ran.job.world:
            silent.append(ran.job.nodes[0])
    report.findings = folded(report.findings, len(runs))
    if silent:
        what = f"GPUs are not measured: not all ranks of {some(silent, 4)} reported them"
        remedy = "On the controller, read logs/ of this run"
        report.findings.append(
            Finding("gpu.unmeasured", what, remedy, nodes=tuple(silent), level="node", proven=False)
        )
    report.findings += _wrong(gpus)
    report.findings += _replaying(gpus)
    if lacking := [gpu.node for gpu in gpus if gpu.on_gpu and gpu.replays is None]:
        report.notes.append(
            f"gpu: PCIe replays are not verified of {quantity(len(lacking), 'GPU')}:"
            f" their driver does not tell them ({some(list(dict.fromkeys(lacking)), 4)})"
        )
    report.findings += _disturbed([gpu for gpu in gpus if gpu.is_shared])
    _compare(report, [gpu for gpu in gpus if not gpu.is_shared])
    report.detail = {"devices": [gpu.as_data() for gpu in gpus]}
    report.said = _sentence(gpus, report)


def _measured(ran: JobRun) -> Iterator[MeasuredGpu]:
    for event in ran.events_of("gpu"):
        rank, job = event["rank"], ran.job
        yield MeasuredGpu(job.node_of(rank), rank % job.per_node, event, job.backend == "nccl")


def _hung(ran: JobRun) -> Iterator[Finding]:
    """Yield the GPUs that did not end their work; the others of the node wait for them."""
    for event in ran.events_of("late"):
        if event["phase"] == "gpu" and "store: waits" not in event["where"]:
            node, number = ran.job.node_of(event["rank"]), event["rank"] % ran.job.per_node
            what = f"GPU {number} did not end its own work within {event['limit_s']:.0f} s"
            remedy = f"On {node}, look for Xids: dmesg -T; reset the GPU or reboot"
            yield Finding("gpu.hung", what, remedy, node, level="rank", part=_part(number))


def _wrong(gpus: Sequence[MeasuredGpu]) -> Iterator[Finding]:
    for gpu in gpus:
        if bad := {name: count for name, count in gpu.event["wrong"].items() if count}:
            said = some([f"{count} {name}" for name, count in bad.items()], 3)
            what = f"{gpu.name} computes wrong values: {said}, in {gpu.event['checked']} products"
            remedy = f"Replace it: its results are wrong without an error. On {gpu.node}: dmesg -T"
            yield _finding(gpu, "gpu.wrong", what, remedy, bad)


def _replaying(gpus: Sequence[MeasuredGpu]) -> Iterator[Finding]:
    for gpu in gpus:
        if (gpu.replays or 0) > _MOST_REPLAYS:
            what = (
                f"{gpu.name}: its PCIe link sent {gpu.replays:,} packets again while it worked;"
                f" at most {_MOST_REPLAYS} are expected"
            )
            values: dict[str, float | str] = {"replays": gpu.replays or 0}
            yield _finding(gpu, "gpu.pcie", what, _SLOT.format(node=gpu.node), values)


def _part(number: int) -> str:
    return f"GPU {number}"


def _finding(
    gpu: MeasuredGpu, kind: str, what: str, remedy: str, values: Mapping[str, float | str]
) -> Finding:
    """Return what is proven of one GPU."""
    part = _part(gpu.number)
    return Finding(kind, what, remedy, gpu.node, level="rank", part=part, values=values)


def _disturbed(gpus: Sequence[MeasuredGpu]) -> Iterator[Finding]:
    for gpu in gpus:
        many = quantity(int(gpu.event["processes"]) - 1, "other process")
        what = f"{gpu.name} is not judged: {many} computed on it (NVML)"
        remedy = f"Drain {gpu.node}, then run rdmaprov accept again"
        yield Finding("gpu.disturbed", what, remedy, gpu.node, proven=False, part=_part(gpu.number))


def _compare(report: StageReport, gpus: Sequence[MeasuredGpu]) -> None:
    """Add the GPUs that are slow beside those of their model, and models that are slow."""
    models: dict[str, list[MeasuredGpu]] = defaultdict(list)
    for gpu in gpus:
        models[gpu.event["device"]].append(gpu)
    for name, own in models.items():
        report.findings += _slow_model(name, own)
        found: dict[tuple[str, int], Finding] = {
            (gpu.node, gpu.number): late for gpu in own if (late := _became_slow(gpu))
        }
        for rate in RATES:
            for each in _slow(rate, own):
                found.setdefault((each.node, int(each.values["gpu"])), each)
        report.findings += _by_node(found, own)
        if own[0].on_gpu and peaks(name) is None:
            report.notes.append(f"gpu: what a {name} can do is not known: judged by its peers")
    if len(models) > 1:
        report.notes.append(f"gpu: {len(models)} models, each judged by itself: {some(models, 4)}")


def _slow(rate: GpuRate, gpus: Sequence[MeasuredGpu]) -> Iterator[Finding]:
    """Yield the GPUs of a model that are slow by one rate; what most show accuses nobody."""
    groups: dict[int, list[MeasuredGpu]] = defaultdict(list)
    nodes = {gpu.node for gpu in gpus}
    for gpu in gpus:
        if rate.value(gpu) > 0:
            place = gpu.number if rate.same_place and len(nodes) >= _LEAST_PEERS else 0
            groups[place].append(gpu)
    for own in groups.values():
        values = [rate.value(gpu) for gpu in own]
        usual = reference(values)
        least = least_good(values, rate.least if own[0].on_gpu else GLOO_BAD_SHARE)
        bad = [gpu for gpu in own if rate.value(gpu) < least]
        for gpu in bad if 2 * len(bad) <= len(own) else ():
            yield _slow_finding(rate, gpu, usual)


def _slow_finding(rate: GpuRate, gpu: MeasuredGpu, usual: float) -> Finding:
    value = rate.value(gpu)
    what = (
        f"{gpu.name} alone: {value:.3g} {rate.unit} of {rate.what}, "
        f"{format_percent(value / usual)} of the {usual:.3g} {rate.unit} of its peers"
    )
    extra = _link(gpu) if rate.same_place else gpu.state
    values: dict[str, float | str] = {"gpu": gpu.number, "seen": value, "usual": usual}
    what += f" ({extra})" if extra else ""
    return _finding(gpu, rate.kind, what, rate.remedy.format(node=gpu.node), values)


def _link(gpu: MeasuredGpu) -> str:
    """Return how its PCIe link stands, if that is known; an idle link may be slower."""
    lanes, most_lanes, rate, most = gpu.event["link"]
    if min(lanes, most_lanes, rate, most) <= 0:
        return ""
    return f"x{lanes:.0f} of x{most_lanes:.0f} lanes at {rate:g} of {most:g} GT/s"


def _became_slow(gpu: MeasuredGpu) -> Finding | None:
    """Return that a GPU became slow while it worked, and when; None if it did not."""
    rates = gpu.rates[SETTLE:]
    cuts = change_points([1 / rate for rate in rates])
    if not cuts:
        return None
    before, after = statistics.median(rates[: cuts[0]]), statistics.median(rates[cuts[-1] :])
    if after >= BAD_SHARE * before:
        return None
    at = SETTLE + cuts[0]
    what = (
        f"{gpu.name} became slow after {at} s of work: {before:.3g}, then {after:.3g} TFLOP/s"
        f"{f' ({gpu.state})' if gpu.state else ''}"
    )
    values: dict[str, float | str] = {"gpu": gpu.number, "seen": after, "usual": before, "at_s": at}
    return _finding(gpu, "device.slow", what, _CLOCKS.format(node=gpu.node), values)


def _by_node(
    found: Mapping[tuple[str, int], Finding], gpus: Collection[MeasuredGpu]
) -> Iterator[Finding]:
    """Yield the findings, one for a node of which all GPUs are slow alike."""
    per_node: dict[str, list[Finding]] = defaultdict(list)
    for (node, _), each in found.items():
        per_node[node].append(each)
    count = Counter(gpu.node for gpu in gpus)
    for node, own in per_node.items():
        many = count[node]
        if len(own) < many or many == 1 or len({each.kind for each in own}) > 1:
            yield from own
            continue
        worst = min(own, key=lambda each: float(each.values["seen"]) / float(each.values["usual"]))
        what = f"all {many} GPUs are slow, the slowest: {worst.what}"
        yield Finding(worst.kind, what, worst.remedy, node, level="node", values=worst.values)


def _slow_model(name: str, gpus: Sequence[MeasuredGpu]) -> Iterator[Finding]:
    """Yield that most GPUs of a model are slow, by its data sheet or by what they say."""
    nodes = tuple(dict.fromkeys(gpu.node for gpu in gpus))
    known = peaks(name) if gpus[0].on_gpu else None
    remedy = _CLOCKS.format(node=nodes[0])
    judged = ((_BF16, "device.fleet-slow", _LEAST_SHARE), (_IN_MEMORY, "", _LEAST_MEMORY))
    for (rate, kind, share), peak in zip(judged, known or (), strict=False):
        usual = statistics.median(rate.value(gpu) for gpu in gpus)
        if usual < share * peak:
            said = (
                f"most {name} have {usual:.3g} {rate.unit} of {rate.what}, "
                f"{format_percent(usual / peak)} of their data sheet's {peak:g}; "
                f"at least {format_percent(share)} is expected"
            )
            yield Finding(kind or rate.kind, said, remedy, nodes=nodes, level="fleet")
    held = [gpu for gpu in gpus if gpu.reasons]
    if 2 * len(held) > len(gpus) > 1:
        why = some(list(dict.fromkeys(name for gpu in held for name in gpu.reasons)), 4)
        what = f"{len(held)} of {len(gpus)} {name} hold their clocks down while they work: {why}"
        yield Finding("gpu.throttled", what, remedy, nodes=nodes, level="fleet")


def _sentence(gpus: Sequence[MeasuredGpu], report: StageReport) -> str:
    bad = len({name for each in report.findings for name in each.nodes})
    said = f"{quantity(len(gpus), 'GPU')} alone: {quantity(bad, 'node')} with findings"
    if gpus:
        slowest = min(gpus, key=lambda gpu: gpu.tflops)
        said += f", at {slowest.tflops:.3g} TFLOP/s or more ({slowest.node})"
    return said
