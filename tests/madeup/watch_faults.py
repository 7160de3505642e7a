"""What can be wrong with a made-up fleet that is watched, and the verdicts that it must get."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from random import Random

from tests.madeup.watched import Fault, Fleet, MadeUpWatch, Place, RailSecond, leaf_nodes

SENDERS = 3
Change = Callable[[Place, MadeUpWatch, Fleet, int], None]


@dataclass(frozen=True)
class WatchFault:
    """A fault."""

    change: Change  # changes a second, at a place
    kinds: tuple[str, ...]  # the verdicts that must name the place; no other one may accuse anybody
    also: tuple[str, ...] = ()  # verdicts that may stand beside, of whomever they name
    is_leaf: bool = False  # whether the leaf is at fault, not one of its nodes
    victims: bool = False  # whether others must be called victims

    def make(self, place: Place) -> Fault:
        return partial(self.change, place)


def _slow_plane(rows: Fleet, rail: int, factor: float) -> None:
    """Have a rail of all nodes move less: a collective waits for its slowest member."""
    for row in rows:
        row[rail].load *= factor


def incast(place: Place, watch: MadeUpWatch, rows: Fleet, _second: int) -> None:
    """Have several nodes send to one at the same time."""
    number, rail = place
    full = rows[number][rail]
    full.received = watch.chance.uniform(0.93, 0.97)
    full.marked = watch.chance.uniform(0.03, 0.3)
    for other in _senders(watch, place):
        sender = rows[other][rail]
        sender.load = full.received / SENDERS
        sender.cnps_handled = watch.chance.uniform(5_000, 20_000)
        sender.paused = watch.chance.uniform(0.0, 0.2)


def _senders(watch: MadeUpWatch, place: Place) -> list[int]:
    return [number for number in range(len(watch.nodes)) if number != place[0]][:SENDERS]


def narrow_uplinks(place: Place, watch: MadeUpWatch, rows: Fleet, _second: int) -> None:
    """Take half of a leaf's uplinks: all that comes into it waits before it."""
    number, rail = place
    inside = [number, *leaf_nodes(watch, place)]
    _slow_plane(rows, rail, 0.6)
    for other, row in enumerate(rows):
        row[rail].received = row[rail].load
        if other in inside:
            row[rail].marked = watch.chance.uniform(0.02, 0.2)
        else:
            row[rail].cnps_handled = watch.chance.uniform(3_000, 15_000)
            row[rail].paused = watch.chance.uniform(0, 0.15)


def storm(place: Place, watch: MadeUpWatch, rows: Fleet, _second: int) -> None:
    """Have a NIC pause its switch without a break; the leaf's others on this rail cannot send."""
    number, rail = place
    _slow_plane(rows, rail, 0.2)
    rows[number][rail].pausing = watch.chance.uniform(0.96, 1.0)
    rows[number][rail].received = 0.01
    for other in leaf_nodes(watch, place):
        rows[other][rail].paused = watch.chance.uniform(0.3, 0.7)


def slow_receiver(place: Place, watch: MadeUpWatch, rows: Fleet, _second: int) -> None:
    """Have a NIC with a slow PCIe link pause its switch a part of the time."""
    number, rail = place
    _slow_plane(rows, rail, 0.7)
    own = rows[number][rail]
    own.pausing = watch.chance.uniform(0.15, 0.4)
    own.counts["stalls"] = watch.chance.randrange(1, 100)
    for other in leaf_nodes(watch, place):
        rows[other][rail].paused = watch.chance.uniform(0.08, 0.3)


def paused_by_a_switch(place: Place, watch: MadeUpWatch, rows: Fleet, _second: int) -> None:
    number, rail = place
    _slow_plane(rows, rail, 0.6)
    for other in (number, *leaf_nodes(watch, place)):
        rows[other][rail].paused = watch.chance.uniform(0.15, 0.5)


def bad_cable(place: Place, watch: MadeUpWatch, rows: Fleet, _second: int) -> None:
    """Give a link wrong bits; what it loses, its peers send again."""
    number, rail = place
    rows[number][rail].bit_errors = 3e-10
    rows[number][rail].counts["rcv_errors"] = watch.chance.randrange(20, 90)
    for other in _senders(watch, place):
        rows[other][rail].counts["lost"] = watch.chance.randrange(5, 60)


def no_buffer(place: Place, watch: MadeUpWatch, rows: Fleet, _second: int) -> None:
    """Have a NIC drop what it receives on the lossless priority."""
    number, rail = place
    count = watch.chance.randrange(100, 5000)
    rows[number][rail].counts |= {"discards": count, "all_discards": count}
    for other in _senders(watch, place):
        rows[other][rail].counts["lost"] = count // SENDERS


def lossy_port(place: Place, watch: MadeUpWatch, rows: Fleet, _second: int) -> None:
    """Have a switch's port lose packets both ways: its node misses as many as all its peers."""
    number, rail = place
    for other in range(len(rows)):
        if other != number:
            rows[other][rail].counts["lost"] = watch.chance.randrange(40, 80)
    rows[number][rail].counts["lost"] = 60 * len(rows)


def alone(**own: Callable[[RailSecond, Random], float]) -> Change:
    """Return what gives a rail's second other values, each from the second and by chance."""

    def change(place: Place, watch: MadeUpWatch, rows: Fleet, _second: int) -> None:
        rail = rows[place[0]][place[1]]
        for name, value in own.items():
            setattr(rail, name, value(rail, watch.chance))

    return change


# Several nodes send to one, at the edge of what a queue takes.
weak_incast = alone(
    received=lambda _, chance: chance.uniform(0.85, 0.95),
    marked=lambda _, chance: chance.uniform(0.005, 0.025),
)
# One rail of a node moves less than its others: three quarters, give or take a tenth.
slow_rail = alone(load=lambda rail, _: rail.load * 0.6)
weak_rail = alone(load=lambda rail, chance: rail.load * chance.uniform(0.65, 0.85))
weak_cable = alone(bit_errors=lambda _rail, _chance: 2e-12)  # twice as many as are allowed
wrong_priority = alone(astray=lambda _rail, _chance: 1.0)


def now_and_then(change: Change) -> Change:
    """Return a fault that is there in every other second."""

    def at_times(place: Place, watch: MadeUpWatch, rows: Fleet, second: int) -> None:
        if second % 2:
            change(place, watch, rows, second)

    return at_times


def flap(place: Place, watch: MadeUpWatch, rows: Fleet, second: int) -> None:
    """Take a link down for two seconds of each eight; its peers time out."""
    number, rail = place
    at = second % 8
    if at in (3, 4):
        _slow_plane(rows, rail, 0.05)
        rows[number][rail].load = 0.0
        rows[number][rail].counts |= {"down": 1}
        rows[number][rail].counts |= (
            {"changes": 1, "link_downs": 1, "link_downed": 1} if (at == 3) else {}
        )
        for other in _senders(watch, place):
            rows[other][rail].counts["timeouts"] = watch.chance.randrange(5, 50)
    elif at == 5:
        rows[number][rail].counts |= {"changes": 1}


FAULTS: Mapping[str, WatchFault] = {
    "incast": WatchFault(incast, ("congestion",)),
    "narrow uplinks": WatchFault(narrow_uplinks, ("congestion",), is_leaf=True),
    "storm of pause": WatchFault(storm, ("storm",), victims=True),
    "slow receiver": WatchFault(slow_receiver, ("receiver",), victims=True),
    "paused from outside": WatchFault(paused_by_a_switch, (), victims=True),
    "bad cable": WatchFault(bad_cable, ("symbols",)),
    "no buffer": WatchFault(no_buffer, ("loss",)),
    "lossy switch port": WatchFault(lossy_port, ("loss",)),
    "slow rail": WatchFault(slow_rail, ("imbalance",)),
    "wrong priority": WatchFault(wrong_priority, ("priority",)),
    "flapping link": WatchFault(flap, ("link",)),
}
# As above, in every other second.
AT_TIMES: Mapping[str, WatchFault] = {
    f"{name}, every other second": replace(FAULTS[name], change=now_and_then(FAULTS[name].change))
    for name in ("incast", "narrow uplinks", "slow receiver", "paused from outside", "slow rail")
}
# Near the thresholds.
WEAK: Mapping[str, WatchFault] = {
    "incast, 0.5 to 2.5 % marked": WatchFault(weak_incast, ("congestion",)),
    "slow rail, 65 to 85 %": WatchFault(weak_rail, ("imbalance",)),
    "cable, 2e-12 wrong bits": WatchFault(weak_cable, ("symbols",)),
}
