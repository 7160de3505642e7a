"""What keeps a training step from its prediction: a device, a process, its data, NVLink."""

import statistics
from collections.abc import Collection, Iterator, Mapping, Sequence

from rdmaprov.acceptance.evidence import measure
from rdmaprov.acceptance.training.times import TrainingTimes
from rdmaprov.bandwidth.rates import format_gb_s, format_percent
from rdmaprov.finding.finding import Finding
from rdmaprov.isolation.compare import BAD_SHARE, GLOO_BAD_SHARE, least_good, reference, slow_nodes
from rdmaprov.words import quantity

_GPU_REMEDY = (
    "On {node}, read clocks and limits under load: nvidia-smi -q -d PERFORMANCE,POWER,TEMPERATURE; "
    "then dmesg -T for Xids"
)
_CPU_REMEDY = (
    "On {node}, read the processors' clocks and governor: lscpu; cpupower frequency-info; "
    "of a virtual machine, steal time: vmstat 1"
)
_PROCESS_REMEDY = (
    "On {node}, see what shares its processors and limits its processes: top; systemctl show -p "
    "CPUQuotaPerSecUSec; cat /sys/fs/cgroup/cpu.max; taskset -p PID"
)
_DATA_REMEDY = "On {node}, see what its CPUs and memory are busy with: top; numastat; vmstat 1"
# Below this share of a step, the time for data matters to nobody; a tenth is what BAD_SHARE leaves.
_DATA_SHARE = 1 - BAD_SHARE


def bad_share(times: TrainingTimes) -> float:
    """Return the share of its peers' rate below which something is slow."""
    return BAD_SHARE if times.on_gpu else GLOO_BAD_SHARE


def node_findings(times: TrainingTimes) -> list[Finding]:
    """Return what is at fault in nodes, each with the sharpest evidence; network paths apart."""
    found = list(_slow_devices(times))
    found += _late_processes(times, _ranks(times, found))
    found += _slow_data(times)
    found += _slow_inside(times, {name for each in found for name in each.nodes})
    return found


def _ranks(times: TrainingTimes, found: Collection[Finding]) -> set[int]:
    """Return the ranks of nodes that something was found on."""
    nodes = {name for each in found for name in each.nodes}
    return {rank for name in nodes for rank in times.plan.job.ranks_of(name)}


def _by_node(times: TrainingTimes, ranks: Collection[int]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for rank in sorted(ranks):
        found.setdefault(times.plan.job.node_of(rank), []).append(rank)
    return found


def _slow(values: Mapping[int, float], share: float) -> set[int]:
    """Return the ranks whose value is below that of their peers; what most show accuses nobody."""
    least = least_good(values.values(), share)
    bad = {rank for rank, value in values.items() if value < least}
    return bad if 2 * len(bad) <= len(values) else set()


def _level(times: TrainingTimes, ranks: Sequence[int]) -> str:
    """Return `node` where all its ranks are meant, else `rank`."""
    return "node" if len(ranks) == times.plan.job.per_node else "rank"


def _who(times: TrainingTimes, ranks: Sequence[int]) -> str:
    """Return which devices of a node are meant."""
    many = times.plan.job.per_node
    if not times.on_gpu:
        return "its CPU"
    if len(ranks) == many and many > 1:
        return f"its {many} GPUs"
    return ", ".join(f"GPU {rank % many}" for rank in ranks)


def _slow_devices(times: TrainingTimes) -> Iterator[Finding]:
    """Yield the devices that multiply matrices slower than their peers.

    A CPU is judged by the time in which its process had it, so that what shares it is told apart
    from what is slow.
    """
    rates = {rank: times.rate(rank) for rank in times.devices}
    usual = reference(rates.values())
    for name, ranks in _by_node(times, _slow(rates, bad_share(times))).items():
        rate = min(rates[rank] for rank in ranks)
        what = (
            f"{_who(times, ranks)} alone: {_tflops(rate)} of matrix multiplication, "
            f"{format_percent(rate / usual)} of the {_tflops(usual)} of its peers"
        )
        remedy = (_GPU_REMEDY if times.on_gpu else _CPU_REMEDY).format(node=name)
        yield Finding("device.slow", what, remedy, name, level=_level(times, ranks))
    if not times.on_gpu:
        yield from _starved(times)


def _starved(times: TrainingTimes) -> Iterator[Finding]:
    """Yield the processes that have a processor for less of the time than their peers have."""
    shares = {rank: each.cpu_share for rank, each in times.devices.items()}
    usual = statistics.median(shares.values())
    for rank in sorted(_slow(shares, bad_share(times))):
        name = times.plan.job.node_of(rank)
        what = (
            f"rank {rank} had a processor for {format_percent(shares[rank])} of the time while it "
            f"multiplied matrices, its peers {format_percent(usual)}: other processes, or a limit"
        )
        yield Finding(
            "process.starved", what, _PROCESS_REMEDY.format(node=name), name, level="rank"
        )


def _late_processes(times: TrainingTimes, known: Collection[int]) -> Iterator[Finding]:
    """Yield the processes that make less of a good device than their peers make of theirs."""
    mfu = {rank: share for rank, share in times.own_mfu.items() if rank not in known}
    usual = reference(mfu.values())
    for name, ranks in _by_node(times, _slow(mfu, bad_share(times))).items():
        rank = min(ranks, key=lambda each: mfu[each])
        step = times.alone[rank]
        numbers = ", ".join(map(str, ranks))
        what = (
            f"{'rank' if len(ranks) == 1 else 'ranks'} {numbers}: a step without communication "
            f"takes {step.own_us / 1e3:.4g} ms and makes {format_percent(mfu[rank])} of the "
            f"device's own rate, that of its peers {format_percent(usual)}; the device alone is "
            "good, so its process is late"
        )
        yield Finding(
            "process.late",
            what,
            _PROCESS_REMEDY.format(node=name),
            name,
            level=_level(times, ranks),
        )


def _slow_data(times: TrainingTimes) -> Iterator[Finding]:
    """Yield the nodes whose batches take longer than their peers', and a tenth of a step."""
    if not times.alone:
        return
    data = {rank: step.phases["data"] for rank, step in times.alone.items()}
    usual_us = statistics.median(data.values())
    step_us = statistics.median(step.own_us - step.phases["data"] for step in times.alone.values())
    bad = {rank for rank, us in data.items() if us > _DATA_SHARE * step_us}
    if 2 * len(bad) > len(data):
        what = (
            f"the data of a step take {usual_us / 1e3:.4g} ms, "
            f"{format_percent(usual_us / step_us)} of its computation, on most ranks"
        )
        yield Finding("data.late", what, _DATA_REMEDY.format(node="each node"), level="fleet")
        return
    for name, ranks in _by_node(times, {r for r in bad if data[r] > 3 * usual_us}).items():
        what = (
            f"the data of a step take {max(data[r] for r in ranks) / 1e3:.4g} ms on "
            f"{quantity(len(ranks), 'rank')}, its peers {usual_us / 1e3:.4g} ms: the loader is late"
        )
        yield Finding(
            "data.late", what, _DATA_REMEDY.format(node=name), name, level=_level(times, ranks)
        )


def _slow_inside(times: TrainingTimes, known: Collection[str]) -> Iterator[Finding]:
    """Yield the nodes that are slow by themselves: their GPUs talk by NVLink or PCIe."""
    if not times.on_gpu or times.plan.job.per_node < 2:
        return
    plane = times.plan.job.planes[0].name
    rates = {times.nodes_of(ranks)[0]: rate for ranks, rate in times.rates(1, plane).items()}
    for each in slow_nodes(rates):
        if each.node not in known:
            yield each


def stragglers(times: TrainingTimes, is_slow: bool, known: Collection[str]) -> Iterator[Finding]:
    """Yield the ranks that join collectives late: at fault where steps are slow.

    Args:
        times: with small all-reduces, in which the last rank to join waits least.
        is_slow: whether steps or messages are slower than they should be; else steps hide it.
    """
    if not is_slow or not times.on_gpu:  # ranks of gloo share processors with whatever runs there
        return
    for rank, us in measure.stragglers(times.ran, times.plan.job.planes[0].name).items():
        name = times.plan.job.node_of(rank)
        if name not in known:
            what = f"rank {rank} joins collectives {us / 1e3:.3g} ms after the others"
            yield Finding("rank.late", what, _PROCESS_REMEDY.format(node=name), name, level="rank")


def slow_groups(times: TrainingTimes) -> list[str]:
    """Return what the all-reduces of groups of the same size show, as sentences.

    Groups of one size are compared with each other, and the planes of all nodes too. They show that
    something is slow; pairs of nodes show what.
    """
    found: list[str] = []
    share = bad_share(times)
    planes = [plane.name for plane in times.plan.job.planes]
    for nodes in times.plan.sizes[1:]:
        for plane in planes:
            rates = times.rates(nodes, plane)
            least = least_good(rates.values(), share)
            bad = sum(rate < least for rate in rates.values())
            if bad:
                usual = format_gb_s(reference(rates.values()))
                found.append(
                    f"{plane}: {bad} of {quantity(len(rates), 'group')} of {nodes} nodes reach "
                    f"{format_gb_s(min(rates.values()))}, the others {usual}"
                )
    whole = {
        plane: max(times.rates(times.plan.sizes[-1], plane).values(), default=0.0)
        for plane in planes
    }
    best = max(whole.values(), default=0.0)
    found += [
        f"{plane}: all nodes reach {format_gb_s(rate)}, on another rail {format_gb_s(best)}"
        for plane, rate in whole.items()
        if rate < share * best
    ]
    return found


def _tflops(rate: float) -> str:
    """Return 10¹² operations a second as they are shown."""
    return f"{rate:.3g} TFLOP/s" if rate >= 1 else f"{1000 * rate:.3g} GFLOP/s"
