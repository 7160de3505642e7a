"""Links that were lost, wrong symbols, and packets that were lost."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence

from rdmaprov.finding.finding import Finding
from rdmaprov.node.counter_names import DIRECTORIES, DOWNS, SYMBOLS
from rdmaprov.rail_counters import link_errors
from rdmaprov.rail_counters import lost_packets as lost_paths
from rdmaprov.rail_counters.traffic import RailTraffic
from rdmaprov.watch.fleet import Place, WatchedFleet
from rdmaprov.watch.node_account import NodeAccount
from rdmaprov.watch.rail import Column, RailState
from rdmaprov.words import duration, quantity

_CABLE = "Reseat or swap the cable, then its transceivers; on both ends, check: ethtool -m"
_PATHS = "Check discards and errors of the switch ports on this rail, then the cables"
# A connection ends then; its sender may be healthy, and its receiver gone.
_RETRIES = "hw.retry_exceeded_err"
# Judged here by themselves.
_APART = {*SYMBOLS, *DOWNS, _RETRIES}
_FEWEST = 3  # of fewer senders, nothing tells at whose end packets are lost


def lost_links(fleet: WatchedFleet) -> Iterator[Finding]:
    """Yield the rails that lost their link, flap, or have none."""
    for place, rail in fleet.rails():
        node = fleet.nodes[place[0]]
        if place[1] in node.unfit:
            continue  # nothing is read of it
        if not node.has_device(place[1]):
            what = f"{node.node.rails[place[1]].name} is not there"
            remedy = f"Check it: rdmaprov validate SITE --limit {place[0]}"
            yield fleet.finding("link.down", what, remedy, place)
            continue
        # Once down and once up again are two changes.
        counted = max(node.total(place[1], name) for name in DOWNS)
        downs = max(counted, (rail.sums[Column.CHANGES] + 1) // 2, rail.downs)
        if not downs:
            continue
        seconds = rail.seconds(RailState.DOWN)
        if seconds >= 0.99 * rail.seen_s:
            what = f"no link in any of {duration(seconds)}"
        elif downs > 1:
            what = f"flaps: it went down {downs} times in {duration(rail.seen_s)}"
        else:
            what = f"it went down once in {duration(rail.seen_s)}"
        if 0 < seconds < 0.99 * rail.seen_s:
            what += f", and was seen down for {duration(seconds)}"
        what += " (carrier_changes, link_down_events_phy)"
        values = {"downs": downs, "down_s": seconds, "seen_s": rail.seen_s}
        yield fleet.finding("link.down", what, _CABLE, place, values=values)


def wrong_symbols(fleet: WatchedFleet) -> Iterator[Finding]:
    """Yield the rails with more wrong symbols than a link may have."""
    for place, rail in fleet.rails():
        bits = 1e9 * fleet.gbps(place) * rail.seen_s
        most = link_errors.most_errors(bits)
        node = fleet.nodes[place[0]]
        counts = {name: node.total(place[1], name) for name in SYMBOLS}
        name = max(counts, key=lambda each: counts[each])
        count, seconds = counts[name], rail.seen_s
        if count <= most:
            burst = node.errors.worst.get((place[1], name))
            if burst is None:
                continue
            count, seconds = burst.count, burst.seconds
            bits = 1e9 * fleet.gbps(place) * seconds
            most = link_errors.most_errors(bits)
        rate = f", a rate of {count / bits:.1e} per bit" if bits else ""
        what = (
            f"{quantity(count, 'symbol error')} in {duration(seconds)}, expected at "
            f"most {most:,} ({link_errors.MAX_BER:g} per bit){rate} ({_read_from(name)})"
        )
        values = {"count": count, "most": most, "bits": bits, "seen_s": seconds}
        yield fleet.finding("link.symbols", what, _CABLE, place, part=name, values=values)


def _read_from(name: str) -> str:
    """Return where a counter stands, such as `ethtool -S: rx_symbol_err_phy`."""
    place, _, own = name.partition(".")
    return f"sysfs: {DIRECTORIES[place]}/{own}" if place in DIRECTORIES else f"{place} -S: {own}"


def losses(
    fleet: WatchedFleet, bad_links: Collection[Place], full: Collection[Place]
) -> Iterator[Finding]:
    """Yield where packets are lost.

    Args:
        bad_links: rails whose links are at fault already; what they lose, others count, too.
        full: rails that are congested or pause their switch: what does not fit there is dropped.
    """
    explained = {rail for _, rail in bad_links}
    everything: list[RailTraffic] = []
    for name, node in fleet.nodes.items():
        bursts = dict(_bursts(fleet, node))
        for traffic in _traffic(fleet, node):
            place, burst = (name, traffic.rail), bursts.get(traffic.rail)
            if place not in bad_links and (verdict := _here(fleet, place, traffic, burst)):
                explained.add(traffic.rail)
                yield verdict
            is_short = burst is not None and not link_errors.excess(traffic)
            everything.append(burst if burst and is_short else traffic)
    open_ones = [e for e in everything if e.rail not in explained and _missing(fleet, e)]
    for number in sorted({each.rail for each in open_ones}):
        own = [each for each in open_ones if each.rail == number]
        own = _both_ends(own, [each for each in everything if each.rail == number])
        yield from _on_paths(fleet, number, own, [place for place in full if place[1] == number])


def _here(
    fleet: WatchedFleet, place: Place, traffic: RailTraffic, burst: RailTraffic | None
) -> Finding | None:
    """Return what a rail counts of its own link: in all the time, or in the worst seconds of it."""
    priority = fleet.lossless(place)
    for counted in (traffic, burst):
        if not counted:
            continue
        seconds = fleet.seconds if counted is traffic else _burst_s(fleet, place)
        within = f"in {duration(seconds)}"
        if found := list(link_errors.local_findings([counted], priority, within)):
            return fleet.with_leaf(found[-1])  # says most
    return None


def _missing(fleet: WatchedFleet, rail: RailTraffic) -> int:
    """Return how many packets of a sender were lost, 0 if these are no more than allowed."""
    retries = fleet.nodes[rail.node].total(rail.rail, _RETRIES)
    return link_errors.excess(rail) + retries


def _both_ends(own: list[RailTraffic], all_: Sequence[RailTraffic]) -> list[RailTraffic]:
    """Return those who miss packets; of a path's two ends also the one that misses only some."""
    some = [e for e in all_ if e in own or any(map(e.delta.get, lost_paths.COUNTERS))]
    return some if len(some) < _FEWEST else own


def _traffic(fleet: WatchedFleet, node: NodeAccount) -> Iterator[RailTraffic]:
    """Yield what the rails of a node counted, as an acceptance has it."""
    deltas: dict[int, dict[str, int]] = defaultdict(dict)
    for (rail, name), count in node.totals.items():
        if count and name not in _APART:
            deltas[rail][name] = count
        elif count and name == _RETRIES:
            deltas.setdefault(rail, {})  # by these alone, too, it is one that misses packets
    for rail, delta in deltas.items():
        place = (node.node.name, rail)
        bits = 1e9 * fleet.gbps(place) * node.rails[rail].seen_s
        yield RailTraffic(*place, delta, bits)


def _bursts(fleet: WatchedFleet, node: NodeAccount) -> Iterator[tuple[int, RailTraffic]]:
    """Yield by rail the errors that were too many for some seconds."""
    deltas: dict[int, dict[str, int]] = defaultdict(dict)
    for (rail, name), burst in node.errors.worst.items():
        if name not in _APART:
            deltas[rail][name] = burst.count
    for rail, delta in deltas.items():
        place = (node.node.name, rail)
        yield rail, RailTraffic(*place, delta, 1e9 * fleet.gbps(place) * _burst_s(fleet, place))


def _burst_s(fleet: WatchedFleet, place: Place) -> float:
    worst = fleet.nodes[place[0]].errors.worst
    return max(burst.seconds for (rail, _), burst in worst.items() if rail == place[1])


def _on_paths(
    fleet: WatchedFleet, rail: int, own: Sequence[RailTraffic], full: Sequence[Place]
) -> Iterator[Finding]:
    names = tuple(each.node for each in own)
    lost = {each.node: _missing(fleet, each) for each in own}
    total = sum(lost.values())
    count = f"{quantity(total, 'packet')} had to be sent again (NAKs and timeouts in hw_counters)"
    if full:
        where = " and ".join(sorted(node for node, _ in full)[:3])
        what = f"{count}; this rail is congested or paused at {where}, and drops there"
        remedy = "Check PFC and buffers of the switch on this priority, on all hops"
        yield fleet.finding("packets.lost", what, remedy, rail=rail, nodes=names, values=lost)
    elif len(own) < _FEWEST:
        what = f"{count}: lost at an end of these paths or in a switch, which counters do not tell"
        yield fleet.finding("packets.lost", what, _PATHS, rail=rail, nodes=names, values=lost)
    else:
        # An end that stands out is not its leaf, which a few nodes share.
        end = lost_paths.worst_end(lost)
        within = f"in {duration(fleet.seconds)}"
        for found in lost_paths.findings(own, {} if end else fleet.leaves, within):
            yield fleet.with_leaf(found)
