"""Which rail of which node loses packets, is slow, or did not carry the data."""

import math
import statistics
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from rdmaprov.acceptance.evidence import measure
from rdmaprov.acceptance.evidence.measure import Direction
from rdmaprov.acceptance.ranks.plan import JobPlane
from rdmaprov.acceptance.ranks.run import JobRun
from rdmaprov.acceptance.remedies import ISOLATE
from rdmaprov.bandwidth import outliers
from rdmaprov.bandwidth.rates import format_gb_s
from rdmaprov.finding.finding import Finding

# A fabric that loses 1 of 1,000 packets halves TCP's bandwidth (Mathis et al. 1997, at 1 ms and
# 1,460 B); a busy healthy one repeats 1 of 10,000 for timers that fired early.
MIN_LOSS = 0.002
MIN_RETRANSMISSIONS = 5
# A link that loses packets loses them in each task. In one task alone a timer fired or a queue of
# the kernel ran over: 89 segments, one burst, were seen between good nodes that shared processors.
MIN_LOSSY_TASKS = 2
# Rails of one machine are alike; on a machine that does much else, the fastest of 50 all-reduces
# was seen to differ twofold between them.
MIN_RATIO = 1 / 3
# A burst takes milliseconds, and there are three: on such a machine they differed sixfold.
MIN_BURST_RATIO = 0.1
_MIN_NODES = 6
_NEAR_WORST = 0.3
_NEAR_SLOWEST = 3.0
# Of what a ring must send; the rest is for algorithms that send less.
_DUE_SHARE = 0.45


Ends = tuple[str, str]  # who sends, who receives
Sent = tuple[int, int]  # segments, and those that were sent again


@dataclass(frozen=True)
class Side:
    """The node at one end of a bad direction that is at fault for it."""

    node: str
    ends: Ends
    does: str  # what it does badly, such as `sends`
    sure: bool  # whether other directions rule out the other end

    @property
    def text(self) -> str:
        """Return what the node does badly, with whom."""
        source, target = self.ends
        other = f"sends to {target}" if self.does == "sends" else f"receives from {source}"
        unsure = "" if self.sure else f" (or {target} receives badly)"
        return other + unsure


def faulty_sides(bad: Collection[Ends], known: Collection[Ends]) -> list[Side]:
    """Return who is at fault for bad directions, each node and what it does once.

    It is not the sender if others receive well from it, and not the receiver if it receives well
    from others. If nothing distinguishes them, as with two nodes, it is the sender, and not sure.
    """
    found: dict[tuple[str, str], Side] = {}
    for source, target in bad:
        out = [ends for ends in known if ends[0] == source]
        into = [ends for ends in known if ends[1] == target]
        sender_good = any(ends not in bad for ends in out)
        receiver_good = any(ends not in bad for ends in into)
        receives = sender_good and not receiver_good
        # All of several bad ones have this end in common, and not the other one.
        receives = receives or (not receiver_good and len(into) > 1 and len(out) == 1)
        sure = sender_good != receiver_good or len(out) + len(into) > 2
        side = Side(
            target if receives else source,
            (source, target),
            "receives" if receives else "sends",
            sure,
        )
        found.setdefault((side.node, side.does), side)
    return list(found.values())


def lossy_paths(ran: JobRun) -> Iterator[Finding]:
    """Yield the nodes whose data TCP retransmitted, the worst of each rail."""
    for plane in ran.job.planes:
        tasks = _segments(ran, plane)
        counted = {ends: _total(by_task.values()) for ends, by_task in tasks.items()}
        least = max(MIN_LOSS, _NEAR_WORST * max(map(_share, counted.values()), default=0.0))
        senders, receivers = _lossy_tasks(tasks)
        bad = [
            ends
            for ends, each in counted.items()
            if each[1] >= MIN_RETRANSMISSIONS
            and _share(each) > least
            and max(len(senders[ends[0]]), len(receivers[ends[1]])) >= MIN_LOSSY_TASKS
        ]
        for side in faulty_sides(bad, counted):
            segments, again = counted[side.ends]
            what = (
                f"{side.text}: {100 * _share((segments, again)):.2g} % TCP retransmissions "
                f"({again} of {segments} segments, TCP_INFO), expected under {100 * MIN_LOSS:g} %"
            )
            remedy = "Check the cable, the switch port and the MTU along this rail"
            yield Finding("path.lossy", what, remedy, side.node, plane.rail)


def _segments(ran: JobRun, plane: JobPlane) -> dict[Ends, dict[int, Sent]]:
    """Return what was sent between nodes of a plane, by task."""
    owners = {address: node for node, address in plane.addresses.items()}
    counted: dict[Ends, dict[int, Sent]] = defaultdict(dict)
    for event in ran.events_of("links"):
        if event["plane"] != plane.name:
            continue
        for link in event["links"]:
            ends = ran.job.node_of(event["rank"]), owners.get(link["to"], link["to"])
            if ends[0] != ends[1]:
                before = counted[ends].get(event["task"], (0, 0))
                now = link["segments"], link["again"]
                counted[ends][event["task"]] = _total((before, now))
    return counted


def _lossy_tasks(
    tasks: Mapping[Ends, Mapping[int, Sent]],
) -> tuple[dict[str, set[int]], dict[str, set[int]]]:
    """Return the tasks in which too much was lost, by sender and by receiver."""
    senders: dict[str, set[int]] = defaultdict(set)
    receivers: dict[str, set[int]] = defaultdict(set)
    for (source, target), by_task in tasks.items():
        lossy = {task for task, sent in by_task.items() if _share(sent) > MIN_LOSS}
        senders[source] |= lossy
        receivers[target] |= lossy
    return senders, receivers


def _total(sent: Iterable[Sent]) -> Sent:
    segments, again = map(sum, zip(*sent, strict=True))
    return segments, again


def _share(sent: Sent) -> float:
    return sent[1] / max(1, sent[0])


def stray_traffic(ran: JobRun) -> Iterator[Finding]:
    """Yield nodes whose data left by another device than the rail under test."""
    planes = {plane.name: plane for plane in ran.job.planes if plane.netdevs}
    for event in ran.events_of("moved"):
        plane = planes.get(event["plane"])
        if plane is None:
            continue
        node = ran.job.node_of(event["rank"])
        netdev = plane.netdevs[node]
        sent, due = event["bytes"].get(netdev, 0), event["due_bytes"]
        if sent < _DUE_SHARE * due:
            most = max(event["bytes"], key=lambda name: event["bytes"][name], default="none")
            what = (
                f"{netdev} sent {sent / 1e6:.0f} MB of {due / 1e6:.0f} MB; most left by {most} "
                f"(/sys/class/net/{netdev}/statistics/tx_bytes)"
            )
            remedy = f"On {node}, check that each rail has its own table: ip rule; ip route"
            yield Finding("rail.bypassed", what, remedy, node, plane.rail)


def slow_rails(ran: JobRun) -> Iterator[Finding]:
    """Yield rails that are slower than others of the same nodes, and nodes slower than others."""
    found = measure.rows(ran)
    rates = {
        plane.name: _best_rate(found, plane.name, _common_size(found)) for plane in ran.job.planes
    }
    directions = measure.directions(ran)
    for plane in ran.job.planes:
        others = [rate for name, rate in rates.items() if name != plane.name and rate]
        rate = rates[plane.name]
        if rate and others and rate < MIN_RATIO * statistics.median(others):
            seen = f"{format_gb_s(rate)}, on other rails {format_gb_s(statistics.median(others))}"
            yield from _slow_rail(plane, seen, directions)
        else:
            yield from _slow_nodes(ran, plane, [d for d in directions if d.plane == plane.name])


def _common_size(found: list[measure.SweepRow]) -> int:
    """Return the largest size that every plane measured, 0 without any."""
    by_plane: dict[str, set[int]] = defaultdict(set)
    for row in found:
        by_plane[row.plane].add(row.bytes)
    return max(set.intersection(*by_plane.values()), default=0) if by_plane else 0


def _best_rate(found: list[measure.SweepRow], plane: str, size: int) -> float:
    """Return the best bus bandwidth: what else the machine does cannot raise it."""
    own = [row.best_gb_s for row in found if row.plane == plane and row.bytes == size]
    return max(own, default=0.0)


def _slow_rail(plane: JobPlane, seen: str, directions: list[Direction]) -> Iterator[Finding]:
    """Yield a slow rail, with the nodes whose sending is slow on it and not on the others."""
    rates: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for each in directions:
        rates[each.source, each.target][each.plane] = each.gb_s
    shares, texts = {}, {}
    for ends, by_plane in rates.items():
        others = [rate for name, rate in by_plane.items() if name != plane.name]
        rate = by_plane.get(plane.name)
        if rate is not None and others:
            usual = statistics.median(others)
            shares[ends] = rate / usual
            texts[ends] = f"{format_gb_s(rate)}, on other rails {format_gb_s(usual)}"
    # The other direction, on which answers return, is slowed a little, too.
    most = min(MIN_RATIO, _NEAR_SLOWEST * min(shares.values(), default=1.0))
    slow_ones = [ends for ends, share in shares.items() if share < most]
    for side in faulty_sides(slow_ones, rates):
        remedy = f"On {side.node}, check the link's rate (ethtool), PCIe (lspci -vv) and tc qdisc"
        what = f"slow ({seen}): {side.text} at {texts[side.ends]}"
        yield Finding("rail.slow", what, remedy, side.node, plane.rail)
    if not slow_ones:
        yield Finding("rail.slow", f"slow: {seen}", ISOLATE, rail=plane.rail)


def _slow_nodes(ran: JobRun, plane: JobPlane, directions: list[Direction]) -> Iterator[Finding]:
    """Yield nodes that send or receive slowly beside the other nodes of a plane."""
    if len(ran.job.nodes) < _MIN_NODES or ran.job.backend == "nccl":
        return  # few values have no deviation; NCCL's bursts run over all rails
    # Of each node the best: a slow partner makes a pair slow, but not all pairs of a node.
    sending: dict[str, float] = {}
    receiving: dict[str, float] = {}
    for each in directions:
        for values, name in ((sending, each.source), (receiving, each.target)):
            values[name] = min(values.get(name, math.inf), 1 / each.gb_s)
    for values, verb in ((sending, "sends"), (receiving, "receives")):
        for name, times in outliers.high(values, 1 / MIN_BURST_RATIO).items():
            rate = format_gb_s(1 / values[name])
            what = f"{verb} at {rate} at best, {times:.1f} times slower than the other nodes"
            remedy = f"On {name}, check the link's rate (ethtool) and PCIe (lspci -vv)"
            yield Finding("rail.slow", what, remedy, name, plane.rail)
