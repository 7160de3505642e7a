"""Who pauses a switch, where it is congested, and who suffers from either without a part in it."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence

from rdmaprov.finding.finding import Finding
from rdmaprov.watch.fleet import Place, WatchedFleet
from rdmaprov.watch.rail import Column, RailAccount, RailState
from rdmaprov.watch.thresholds import DOUBLED, FULL_SHARE, MARKED_SHARE
from rdmaprov.words import duration, quantity

_NIC = "Take the node out of service; check its PCIe link (lspci -vv), its memory and its firmware"
_PCIE = "Check the PCIe link and the settings of its bridges: rdmaprov validate SITE --limit "
_INCAST = "Spread what the job sends there at one time, or check for others that send to it"
_UPLINKS = "Check that the uplinks of this leaf are all there and that traffic is spread on them"
_NO_ECN = (
    "No port marked a packet: check that ECN is on in the switches, on this priority, at a "
    "threshold below that of PFC"
)
_SWITCH = "Find who pauses the switches of this rail: their ports, and nodes outside the site"
_FEWEST = 3  # rails of a leaf, before it is named instead of them


def pausing(fleet: WatchedFleet) -> Iterator[Finding]:
    """Yield the rails that pause their switch: storms, and receivers that are too slow."""
    for place, rail in fleet.rails():
        if rail.is_storm:
            what = f"it pauses its switch without a break ({_longest(rail)})"
            what += _stalls(rail)
            values = {"storm_s": rail.storm_s}
            yield fleet.finding("traffic.paused", what, _NIC, place, values=values)
        elif rail.lasts(RailState.PAUSING):
            own = rail.while_in(RailState.PAUSING)
            what = (
                f"it paused its switch {own.share(Column.PAUSING):.0%} of "
                f"{duration(own.seconds)} (ethtool -S: tx_prioN_pause_duration)"
            )
            what += _stalls(rail)
            values = {"share": own.share(Column.PAUSING), "seen_s": own.seconds}
            yield fleet.finding("traffic.pauses", what, _PCIE + place[0], place, values=values)


def _longest(rail: RailAccount) -> str:
    if rail.storm_s:
        return f"for {duration(rail.storm_s)}; ethtool -S: tx_prioN_pause_duration"
    return "ethtool -S: tx_pause_storm_warning_events, tx_pause_storm_error_events"


def _stalls(rail: RailAccount) -> str:
    return ", and its PCIe link stalls (outbound_pci_stalled)" if rail.sums[Column.STALLS] else ""


def congested(fleet: WatchedFleet) -> list[tuple[Place, bool]]:
    """Return the rails that receive marked packets for long, and whether their line is full.

    Where it is not, most nodes of the leaf are congested on this rail, or this one for longer.
    """
    found = []
    for place, rail in fleet.rails():
        if rail.lasts(RailState.CONGESTED):
            bits = 8 * rail.while_in(RailState.CONGESTED).rate(Column.RECEIVED)
            gbps = fleet.gbps(place)
            found.append((place, bool(gbps) and bits >= FULL_SHARE * 1e9 * gbps))
    crowds = Counter(
        (fleet.leaves.get(place[0], ""), place[1]) for place, full in found if not full
    )
    return [
        (place, is_full)
        for place, is_full in found
        if is_full
        or _is_most(fleet, leaf := fleet.leaves.get(place[0], ""), crowds[leaf, place[1]])
        or fleet.nodes[place[0]].rails[place[1]].lasts(RailState.CONGESTED, DOUBLED)
    ]


def _is_most(fleet: WatchedFleet, leaf: str, count: int) -> bool:
    """Return whether these are most nodes of a leaf, and not few."""
    return bool(leaf) and count >= _FEWEST and 2 * count > fleet.size_of(leaf)


def congestion(fleet: WatchedFleet, found: Sequence[tuple[Place, bool]]) -> Iterator[Finding]:
    """Yield where the fabric is congested: at full receivers, or before a leaf."""
    before: dict[tuple[str, int], list[Place]] = defaultdict(list)
    for place, is_full in found:
        leaf = fleet.leaves.get(place[0], "")
        if is_full or not leaf:
            yield fleet.finding("traffic.congested", _marks(fleet, place), _INCAST, place)
        else:
            before[leaf, place[1]].append(place)
    for (leaf, rail), places in before.items():
        if _is_most(fleet, leaf, len(places)):
            size = fleet.size_of(leaf)
            what = (
                f"{len(places)} of its {size} nodes receive marked packets, none of them at its "
                f"line rate: the way into this leaf is too narrow; {_marks(fleet, places[0])}"
            )
            nodes = tuple(node for node, _ in places)
            values = {"nodes": len(places), "of_nodes": size}
            yield fleet.finding(
                "traffic.congested",
                what,
                _UPLINKS,
                rail=rail,
                nodes=nodes,
                leaf=leaf,
                values=values,
            )
            continue
        for place in places:
            yield fleet.finding("traffic.congested", _marks(fleet, place), _UPLINKS, place)
    if not found:
        yield from _elsewhere(fleet)


def _marks(fleet: WatchedFleet, place: Place) -> str:
    rail = fleet.nodes[place[0]].rails[place[1]]
    row = rail.while_in(RailState.CONGESTED)
    gbps = fleet.gbps(place)
    line = f", {8e-9 * row.rate(Column.RECEIVED) / gbps:.0%} of its line rate" if gbps else ""
    return (
        f"{row.marked_share:.1%} of its received packets were marked for "
        f"{duration(row.seconds)}, expected under {MARKED_SHARE:.0%}, at "
        f"{row.rate(Column.RECEIVED) / 1e9:.1f} GB/s{line}; it sent "
        f"{row.rate(Column.CNPS_SENT):,.0f} CNPs per second (hw_counters)"
    )


def _elsewhere(fleet: WatchedFleet) -> Iterator[Finding]:
    """Yield rails whose packets are marked where nobody watches."""
    by_rail: dict[int, list[str]] = defaultdict(list)
    for place, rail in fleet.rails():
        if rail.lasts(RailState.SLOWED, DOUBLED):
            by_rail[place[1]].append(place[0])
    for number, names in by_rail.items():
        what = "CNPs slow its traffic, and no watched node receives marked packets"
        remedy = "Find the receivers: nodes outside the site, or outside --limit"
        yield fleet.finding("traffic.congested", what, remedy, rail=number, nodes=tuple(names))


def victims(
    fleet: WatchedFleet, sources: Collection[tuple[Place, str]], are_marks: bool
) -> Iterator[Finding]:
    """Yield the rails that are paused without a part in it, by what pauses them."""
    accused = {place for place, _ in sources}
    by_rail: dict[int, list[Place]] = defaultdict(list)
    for place, rail in fleet.rails():
        if rail.lasts(RailState.PAUSED) and place not in accused and _counts_cnps(fleet, place):
            by_rail[place[1]].append(place)
    for number, places in by_rail.items():
        own = [each for each in sources if each[0][1] == number]
        worst = max(places, key=lambda place: _paused_share(fleet, place))
        shared = f"its switch paused it {_paused_share(fleet, worst):.0%} of "
        if len(places) > 1:
            shared = f"their switches paused them, {worst[0]} {_paused_share(fleet, worst):.0%} of "
        seconds = fleet.nodes[worst[0]].rails[number].seconds(RailState.PAUSED)
        what = (
            f"{shared}{duration(seconds)} (ethtool -S: rx_prioN_pause_duration), and what it sends "
            f"is not marked: not its own fault{_because(own)}"
        )
        remedy = "Repair that first" if own else _SWITCH if are_marks else _NO_ECN
        nodes = tuple(node for node, _ in places)
        values = {"share": _paused_share(fleet, worst), "paused_s": seconds}
        yield fleet.finding("traffic.held", what, remedy, rail=number, nodes=nodes, values=values)


def _counts_cnps(fleet: WatchedFleet, place: Place) -> bool:
    """Return whether a rail counts CNPs: without them, whether it has a part is unknown."""
    return (place[1], "hw.rp_cnp_handled") in fleet.nodes[place[0]].totals


def _paused_share(fleet: WatchedFleet, place: Place) -> float:
    rail = fleet.nodes[place[0]].rails[place[1]]
    return rail.while_in(RailState.PAUSED).share(Column.PAUSED)


def _because(own: Sequence[tuple[Place, str]]) -> str:
    """Return which rails of the same plane may cause it: those that pause come first."""
    if not own:
        return ""
    pausing = [place for place, kind in own if kind != "traffic.congested"]
    places = pausing or [place for place, _ in own]
    names = ", ".join(f"{node} rail {rail}" for node, rail in places[:3])
    more = f" and {quantity(len(places) - 3, 'other')}" if len(places) > 3 else ""
    does = "pauses its switch" if pausing else "is congested"
    return f"; {names}{more} {does}"
