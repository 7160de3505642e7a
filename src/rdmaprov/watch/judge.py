"""All verdicts of a watch, so that one cause is accused once and a victim never."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from dataclasses import replace
from statistics import median

from rdmaprov.finding.finding import Finding, apply_remedy
from rdmaprov.finding.kinds import UNFIT
from rdmaprov.kernel_log.during import judge_lines, rail_places
from rdmaprov.probe.errors import NodeUnreachable
from rdmaprov.rail_counters.traffic import PRIORITY_SHARE
from rdmaprov.watch.balance_windows import LowRail
from rdmaprov.watch.fleet import Place, WatchedFleet
from rdmaprov.watch.links import losses, lost_links, wrong_symbols
from rdmaprov.watch.node_account import NodeAccount
from rdmaprov.watch.pauses import congested, congestion, pausing, victims
from rdmaprov.watch.priority_windows import PRIORITIES, sent_rdma
from rdmaprov.watch.rail import Column
from rdmaprov.watch.thresholds import IMBALANCE, SHARED_SHARE, SHARED_WINDOWS, STOPS_AT, WINDOW_S
from rdmaprov.words import duration, quantity

_LOCAL = "Check NCCL_IB_HCA, its link and its PCIe link: rdmaprov validate SITE --limit "
_TWO = "Compare both: link and PCIe rates, NCCL_IB_HCA"
_SHARED = "Check NCCL_IB_HCA, and this rail's switches: what they have in common"
_FEW_NODES = 2
_DRIVER = "Check which driver it has: ethtool -i; with Soft-RoCE there are none"


def imbalances(fleet: WatchedFleet, explained: Collection[Place]) -> Iterator[Finding]:
    """Yield the rails that carry less than 80 % of what the usual one of their node does."""
    low: dict[Place, tuple[str, LowRail]] = {}
    busy = 0
    planes = {rail for _, rail in explained}
    for name, node in fleet.nodes.items():
        busy += node.balance.busy > 0
        for rail, found in node.balance.low().items():
            # A collective ends with its slowest rail, and the others of its plane wait for that.
            if rail not in planes and not node.rails[rail].is_held:
                low[name, rail] = found
    count = Counter(rail for _, rail in low)
    often = Counter(place[1] for place, each in low.items() if each[1].windows >= SHARED_WINDOWS)
    shared = {
        rail
        for rail, times in count.items()
        if busy > _FEW_NODES and (2 * times > busy or _usual_share(fleet, rail) < SHARED_SHARE)
    }
    for place, found in low.items():
        if place[1] not in shared:
            yield _own(fleet, place, found)
    for rail in sorted(each for each in shared if 2 * often[each] > count[each]):
        places = [place for place in low if place[1] == rail]
        way, worst = min((low[place] for place in places), key=lambda each: each[1].share)
        what = f"{way} down to {worst.share:.0%} of what the other rails did, on {len(places)} of "
        nodes = tuple(node for node, _ in places)
        what += f"{busy} busy nodes, expected at least {1 - IMBALANCE:.0%}"
        values = {"share": worst.share, "nodes": len(places), "of_nodes": busy}
        yield fleet.finding("traffic.share", what, _SHARED, rail=rail, nodes=nodes, values=values)


def _usual_share(fleet: WatchedFleet, rail: int) -> float:
    """Return what a rail of the median node did of late, of the usual rail of its node."""
    busy = (node.balance for node in fleet.nodes.values() if node.balance.busy)
    return median(share for each in busy if (share := each.share(rail)) is not None)


def _own(fleet: WatchedFleet, place: Place, found: tuple[str, LowRail]) -> Finding:
    way, low = found
    seconds = duration(low.windows * WINDOW_S)
    node = fleet.nodes[place[0]].node
    is_pair = len(node.compute_rails) == 2
    beside = "other rail" if is_pair else "usual rail of its node"
    what = (
        f"{way} {low.share:.0%} of what the {beside} did for {seconds}, expected at least "
        f"{1 - IMBALANCE:.0%}"
    )
    if is_pair:
        what += "; of two rails, nothing tells which is at fault"
    remedy = _TWO if is_pair else _LOCAL + place[0]
    values = {"share": low.share, "seen_s": low.windows * WINDOW_S}
    return fleet.finding("traffic.share", what, remedy, place, values=values)


def unknowns(fleet: WatchedFleet) -> Iterator[Finding]:
    """Yield what is not known of nodes and rails."""
    missing: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for name, node in fleet.nodes.items():
        yield from _silences(fleet, name, node)
        if node.answers:
            for rail, why in node.unfit.items():
                yield Finding("rail.unsupported", why, UNFIT, name, rail, proven=False)
            yield from _odd_counters(name, node)
            if node.missing:
                missing[node.missing].append(name)
    for lines, names in missing.items():
        what = f"no counter of {', of '.join(lines)}"
        found = _unknown("node.counters", what, _DRIVER, "", ", ".join(lines))
        yield replace(found, nodes=tuple(names), level="node")


def _unknown(kind: str, what: str, remedy: str, node: str, part: str = "") -> Finding:
    return Finding(kind, what, remedy, node, proven=False, part=part)


def _silences(fleet: WatchedFleet, name: str, node: NodeAccount) -> Iterator[Finding]:
    if node.lost is not None:
        what = node.lost.message.removeprefix(f"{name}: ")
        if node.answers:
            what = f"no answer since {duration(fleet.seconds - node.heard_s)}: {what}"
        hint = node.lost.hint or "Check its console"
        away = isinstance(node.lost, NodeUnreachable)
        kind = "node.unreachable" if away else "node.silent"
        yield Finding(kind, what, hint, name, proven=False, unreachable=away)
    elif not node.answers:
        yield _unknown("node.silent", "it has not answered yet", "Watch longer", name)
    if node.reboots:
        at = ", ".join(duration(each) for each in node.reboots[:3])
        what = f"it rebooted during the watch (seen at {at}): its earlier counts are lost"
        yield _unknown("node.rebooted", what, "Find out why: its console, last -x", name)


def _odd_counters(name: str, node: NodeAccount) -> Iterator[Finding]:
    if node.resets:
        what = (
            f"counters of {_rails(node.reset_rails)} were set back {len(node.resets)} times (first "
            f"seen at {duration(node.resets[0])}): what they counted then is lost"
        )
        remedy = "Find out who resets them, or reloads the driver"
        yield _unknown("counters.reset", what, remedy, name)
    stopped = {key for key in node.may_stop if (node.levels[key] or 0) >= STOPS_AT[key[1]]}
    for counter in sorted({each for _, each in stopped}):
        rails = {rail for rail, each in stopped if each == counter}
        what = f"{counter} of {_rails(rails)} is at its maximum and no longer counts"
        yield _unknown("counters.full", what, "Set it back: perfquery -R", name, counter)
    gone = {rail for rail, _ in node.gone}
    if gone:
        what = f"counters of {_rails(gone)} can no longer be read"
        yield _unknown("node.counters", what, "Check its log: dmesg", name)


def _rails(numbers: set[int]) -> str:
    ordered = sorted(numbers)
    if len(ordered) == 1:
        return f"rail {ordered[0]}"
    return f"{quantity(len(ordered), 'rail')} ({', '.join(map(str, ordered))})"


def wrong_priorities(fleet: WatchedFleet) -> Iterator[Finding]:
    """Yield the rails whose RDMA did not have the declared priority, all in all or for a while."""
    for place, _ in fleet.rails():
        node, rail = fleet.nodes[place[0]], place[1]
        wanted = fleet.lossless(place)
        if wanted is None:
            continue
        found = node.priorities.wrong.get(rail) or sent_rdma(node.totals, rail)
        if not found.is_wrong(wanted):
            continue
        sent = found.by_priority
        most = max(PRIORITIES, key=lambda each: sent[each])
        what = (
            f"{sent[wanted] / found.rdma:.0%} of its RDMA can have had priority {wanted} "
            f"(fabric_lossless_priority), expected at least {PRIORITY_SHARE:.0%}; most "
            f"{found.unit} had {most} (ethtool -S: tx_prioN_{found.unit})"
        )
        remedy = apply_remedy("roce_qos", place[0]) + ", and check NCCL_IB_TC of the job"
        values = {"priority": wanted, "of_rdma": sent[wanted] / found.rdma, "most_had": most}
        yield fleet.finding("traffic.priority", what, remedy, place, values=values)


def judge(fleet: WatchedFleet) -> list[Finding]:
    """Return the verdicts: causes first, then what follows from them, then what is not known."""
    links = [*lost_links(fleet), *wrong_symbols(fleet)]
    pauses = list(pausing(fleet))
    full = congested(fleet)
    crowds = list(congestion(fleet, full))
    sources = [(place, each.kind) for each in pauses for place in _places(each)]
    sources += [(place, "traffic.congested") for place, _ in full]
    are_marks = any(rail.sums[Column.MARKED] for _, rail in fleet.rails())
    suffer = list(victims(fleet, sources, are_marks))
    bad_links = {place for each in links for place in _places(each)}
    lost = list(losses(fleet, bad_links, [place for place, _ in sources]))
    explained = bad_links | {
        place for each in (*pauses, *crowds, *suffer, *lost) for place in _places(each)
    }
    uneven = list(imbalances(fleet, explained))
    wrong = wrong_priorities(fleet)
    known = [*links, *pauses, *crowds, *wrong, *lost, *uneven, *suffer]
    return [*kernel_faults(fleet), *known, *unknowns(fleet)]


def kernel_faults(fleet: WatchedFleet) -> Iterator[Finding]:
    """Yield what needs a hand of what the nodes' kernels logged, once they were asked."""
    for name, node in fleet.nodes.items():
        yield from judge_lines(name, node.log, rail_places(node.devices))[0]


def _places(found: Finding) -> list[Place]:
    return [(node, found.rail) for node in found.nodes if found.rail is not None]
