"""What the counters of rails over time prove about rails, and add to a result."""

import json
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from rdmaprov.acceptance.preflight.gate_site import GateSite
from rdmaprov.acceptance.ranks.run import JobRun
from rdmaprov.acceptance.result import GateResult
from rdmaprov.acceptance.samples.digest import NodeDigest
from rdmaprov.acceptance.samples.events import RailEvent
from rdmaprov.acceptance.samples.fleet import FleetSamples, collect_samples, first_silence
from rdmaprov.acceptance.samples.track import usual
from rdmaprov.bandwidth import outliers
from rdmaprov.finding.finding import Finding
from rdmaprov.rail_counters.change_points import best_cut
from rdmaprov.words import quantity, some

LOG = "samples.jsonl"
# Our choice: far beyond the 1 % by which equal runs differ, and half of what one rail of eight is.
LEAST_CHANGE = 0.06
# A gate asks once in a run, not once in a bin, so five deviations of the mean are enough.
_DEVIATIONS = 5.0
_LEAST_BINS = 10


def judge_samples(
    result: GateResult, site: GateSite, keep: Callable[[str, str], Path | None]
) -> None:
    """Add what samplers saw of a run to its result, and keep the rates of all rails."""
    ran = result.ran
    fleet = result.samples = fleet_samples(site, ran) if ran else None
    if ran is None or fleet is None:
        return
    if not fleet.nodes:
        result.notes += notes(fleet)
        return
    result.findings += findings(fleet)
    result.notes += notes(fleet, hung=ran.has_failed)
    keep(LOG, "".join(f"{json.dumps(line)}\n" for line in log_lines(fleet)))


def soak_findings(site: GateSite, ran: JobRun) -> list[Finding]:
    """Return what is wrong with rails in a soak, in which all do the same all the time."""
    fleet = fleet_samples(site, ran)
    if fleet is None:
        return []
    # Planes of one rail each follow one another, so that each rail has other work.
    return findings(fleet, steady=len(ran.job.planes) == 1)


def fleet_samples(site: GateSite, ran: JobRun) -> FleetSamples | None:
    """Return what samplers saw of a run, None if it had none."""
    if not ran.job.sampled:
        return None
    files = {name: node.samples for name, node in ran.nodes.items()}
    rails = {node.name: len(node.compute_rails) for node in site.nodes}
    return collect_samples(files, rails, together=site.backend == "nccl")


def log_lines(fleet: FleetSamples) -> Iterator[dict[str, object]]:
    """Yield a line for each node: the rates of its rails in GB/s, by bins of `step_s`."""
    for node in fleet.nodes:
        yield {
            "node": node.node,
            "began_s": node.began_s,
            "clock_ahead_s": fleet.lags_s.get(node.node, 0.0),
            "step_s": node.step_s,
            "sent_gb_s": [
                [None if math.isnan(rate) else float(f"{rate:.4g}") for rate in rail.sent]
                for rail in node.rails
            ],
        }


@dataclass(frozen=True)
class RateChange:
    """A change of a rate."""

    place: int
    before: float
    after: float


def change_point(rates: Sequence[float]) -> RateChange | None:
    """Return where a rate falls for good, None if it does not.

    It is cut once, where its two parts differ most (`change_points.best_cut`). A soak's times are
    cut again and again instead: their levels come and go.
    """
    if len(rates) < 2 * _LEAST_BINS:
        return None
    cut = best_cut(rates, _LEAST_BINS, weigh=float)
    if not cut.place:
        return None
    before, after = statistics.median(rates[: cut.place]), statistics.median(rates[cut.place :])
    steps = [abs(b - a) for a, b in pairwise(rates)]
    noise = 1.4826 * statistics.median(steps) / math.sqrt(2)
    if after > (1 - LEAST_CHANGE) * before or cut.fall < _DEVIATIONS * noise:
        return None
    return RateChange(cut.place, before, after)


# Three links of one rail that go down together have a cause in common: our choice.
_TOGETHER = 3
_TOGETHER_S = 2.0
_MOST_NAMED = 4
# A rail that may not send for a tenth of a second within a second is worth a note: our choice.
_PAUSED_NOTE = 0.1
# As a slow node is distinguished from others by its bursts: docs/evidence.md, Findings.
_WAIT_TIMES, _LEAST_RAILS = 10, 6
_READ_STUCK_S = 2.0  # a firmware that answers needs less than a millisecond
_LINK_REMEDY = "Check the cable, its transceivers and the switch port; on the node: dmesg -T"
_WHAT = {
    "link": "its link went down {times} during the run{when} (carrier_changes, link_downed)",
    "stopped": "it sent nothing {times}{when}, while the other rails of its node sent",
    "weak": "it sent {share:.0%} of what the other rails of its node did {times}{when}",
    "pausing": "it told its switch to stop sending {times}{when}, without a break"
    " (tx_prioN_pause_duration of ethtool -S)",
}
_KINDS = {
    "link": "link.down",
    "stopped": "traffic.stopped",
    "weak": "traffic.stopped",
    "pausing": "traffic.paused",
}
_REMEDY = {
    "link": _LINK_REMEDY,
    "stopped": "See its errors and its switch port at that time; on the node: rdma statistic; "
    "ethtool -S",
    "weak": "See its errors and its switch port at that time; on the node: rdma statistic; "
    "ethtool -S",
    "pausing": "Its NIC cannot take what arrives: check its PCIe link and slot (lspci -vv), its "
    "firmware, and the IOMMU",
}


def findings(fleet: FleetSamples, steady: bool = False) -> list[Finding]:
    """Return what is wrong with rails, with times."""
    lost = [(node, each) for node in fleet.nodes for each in node.events if each.kind == "link"]
    found = list(_common_losses(fleet, lost))
    known = {(name, finding.rail) for finding in found for name in finding.nodes}
    without_link = {(node.node, each.rail) for node, each in lost}
    found += [_finding(fleet, *each) for each in lost if (each[0].node, each[1].rail) not in known]
    found += [
        _finding(fleet, node, each)
        for node in fleet.nodes
        for each in node.events
        if each.kind != "link" and (node.node, each.rail) not in without_link  # its consequence
    ]
    return found + (_changes(fleet) if steady else [])


def _finding(fleet: FleetSamples, node: NodeDigest, event: RailEvent) -> Finding:
    what = _WHAT[event.kind].format(
        times=quantity(event.count, "time"), when=_when(fleet, node, event), share=event.share
    )
    return Finding(
        _KINDS[event.kind], what, _REMEDY[event.kind], node.node, event.rail, level="rail"
    )


def _when(fleet: FleetSamples, node: NodeDigest, event: RailEvent) -> str:
    """Return when it happened, for how long."""
    if not event.spans:
        return ""
    at = fleet.since_start(node, event.spans[0].from_s)
    first = ", first" if len(event.spans) > 1 else ""
    return f"{first} {at:.1f} s after the start, for {event.seconds:.1f} s in all"


def _common_losses(
    fleet: FleetSamples, lost: Sequence[tuple[NodeDigest, RailEvent]]
) -> Iterator[Finding]:
    """Yield rails whose link went down on several nodes at the same time."""
    by_rail: dict[int, list[tuple[float, str]]] = {}
    for node, event in lost:
        if event.spans:
            at = fleet.since_start(node, event.spans[0].from_s)
            by_rail.setdefault(event.rail, []).append((at, node.node))
    for rail, times in sorted(by_rail.items()):
        times.sort()
        middle = times[len(times) // 2][0]
        same = [name for at, name in times if abs(at - middle) <= _TOGETHER_S]
        if len(same) >= _TOGETHER:
            what = (
                f"the links of {len(same)} nodes went down together, {middle:.1f} s after the start"
            )
            remedy = "Check the switch they share: its log, its power, its transceivers"
            yield Finding("link.down", what, remedy, rail=rail, level="leaf", nodes=tuple(same))


def _changes(fleet: FleetSamples) -> list[Finding]:
    """Return that all rails together sent less from some time on, though nothing else was asked."""
    if not fleet.nodes:
        return []
    step = max(node.step_s for node in fleet.nodes)
    sums = [fleet_median(node) for node in fleet.nodes if node.step_s == step]
    rates = [
        statistics.median(row)
        for row in zip(*sums, strict=False)
        if not any(math.isnan(rate) for rate in row)
    ]
    at_work = [place for place, rate in enumerate(rates) if rate > usual(rates) / 2]
    begin, end = (at_work[0], at_work[-1] + 1) if at_work else (0, 0)
    # The first and last bins are not whole.
    found = change_point(rates[begin + 1 : end - 1])
    if found is None:
        return []
    what = (
        f"from {(begin + 1 + found.place) * step:.0f} s after the start, rails sent "
        f"{found.after:.3g} GB/s, {found.before:.3g} GB/s before, with the same work"
    )
    remedy = "See what changed at that time: temperatures and clocks of GPUs, links, other jobs"
    return [Finding("rate.changed", what, remedy, level="fleet")]


def fleet_median(node: NodeDigest) -> list[float]:
    """Return the median of a node's rails by bin."""
    own = [each.sent for each in node.rails if len(each.sent)]
    return [statistics.median(row) for row in zip(*own, strict=True)] if own else []


def notes(fleet: FleetSamples, hung: bool = False) -> Iterator[str]:
    """Yield what is no fault by itself."""
    if fleet.missing:
        names, why = sorted(fleet.missing), next(iter(fleet.missing.values()))
        yield f"no counters over time of {some(names, _MOST_NAMED)}: {why}"
    paused = [
        (each.paused[0], f"{node.node} rail {each.rail} ({each.paused[0]:.0%})")
        for node in fleet.nodes
        for each in node.rails
        if each.paused and each.paused[0] >= _PAUSED_NOTE
    ]
    if paused:
        names = [text for _, text in sorted(paused, reverse=True)]
        yield f"paused by their switch, of the worst second: {some(names, _MOST_NAMED)}"
    if waits := list(_waiting_rails(fleet)):
        yield (
            "these rails had data and could not send it, ten times longer than others for the same "
            f"bytes: {some(waits, _MOST_NAMED)}. What they send to is congested or slow "
            "(port_xmit_wait)"
        )
    for node in fleet.nodes:
        if node.longest_s > _READ_STUCK_S:
            yield f"{node.node}: reading the counters of its rails took {node.longest_s:.1f} s once"
        if abs(node.clock_step_s) > _READ_STUCK_S:
            yield f"{node.node}: its clock was set by {node.clock_step_s:+.1f} s during the run"
    if hung and (silence := first_silence(fleet)):
        yield silence


def _waiting_rails(fleet: FleetSamples) -> Iterator[str]:
    """Yield rails that waited much longer than most before they could send, the worst first.

    Ticks are compared and not converted: how long one is depends on the device (NVIDIA, ibdiagnet
    User Manual v2.13, Congestion Assessment on InfiniBand Links).
    """
    rates = {
        f"{node.node} rail {each.rail}": each.counts["wait_ticks"] / (each.mean * node.lasted_s)
        for node in fleet.nodes
        for each in node.rails
        if each.mean > 0
    }
    if len(rates) < _LEAST_RAILS or not statistics.median(rates.values()):
        return
    found = outliers.high(rates, _WAIT_TIMES)
    yield from sorted(found, key=lambda name: -found[name])
