"""Windows of ten minutes of a large fleet: two faults, between the bursts of other tenants.

A window is a made-up fleet (tests/madeup/watched.py) that the code of the verb watches second by
second and judges every three seconds. Two faults of two kinds begin one to four minutes after its
begin, at any time of their own, at places of two rails that are drawn; each lasts two to five
minutes. In a round each kind occurs once.

Other tenants send bursts the whole time: into each rail of a leaf one in 400 s, one to three
seconds long. Its nodes get marks and pauses, all nodes of the rail notifications, and the job of
the fleet moves up to a third less, on all rails alike, as a collective ends with its slowest one.
Our choice: bursts of switch queues that were measured last
microseconds (Zhang and others, High-Resolution Measurement of Data Center Microbursts, IMC 2017);
what lasts longer than three seconds is congestion, whoever makes it.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median

from bench.kept import add_row, read_rows
from tests.madeup.shape import FleetShape, usual_shape
from tests.madeup.site import site_nodes
from tests.madeup.trials import least_share
from tests.madeup.watch_faults import AT_TIMES, FAULTS, WEAK, WatchFault
from tests.madeup.watched import Fault, Fleet, MadeUpWatch, Place
from tests.madeup.watching import Watching

from rdmaprov.finding.finding import Finding
from rdmaprov.watch.judge import judge
from rdmaprov.watch.verdict import word

SECONDS, JUDGE_S = 600, 3
# A cable with twice as many wrong bits as are allowed differs from chance after minutes alone.
UNFIT = "cable, 2e-12 wrong bits"
KINDS: Mapping[str, WatchFault] = {
    name: fault for name, fault in {**FAULTS, **WEAK, **AT_TIMES}.items() if name != UNFIT
}
Verdict = tuple[bool, bool, float | None]  # as Window has it of a fault: found, right, after
HEAD = "| fault | windows | found | right part | after | worst |\n|---|---|---|---|---|---|"
SOON_S = 15
BETWEEN_S = 400  # two bursts of others into a rail of a leaf
_DAY_S = 86_400


@dataclass
class Window:
    """What came of a window.

    Args:
        kinds: the names of its faults.
        found: of each, whether a verdict of its kind names its rail.
        right: of each, whether the first such verdict names its place.
        after: of each, the seconds from its begin to that verdict; None where there is none.
        accused: how many different verdicts accused somebody.
        false: those of them that are of no fault, as text.
        cpu_s: processor time, with that of the made-up fleet.
    """

    kinds: list[str]
    found: list[bool] = field(default_factory=list)
    right: list[bool] = field(default_factory=list)
    after: list[float | None] = field(default_factory=list)
    accused: int = 0
    false: list[str] = field(default_factory=list)
    cpu_s: float = 0.0


@dataclass
class Bursts:
    """What other tenants send, as a fault changes a second."""

    chance: random.Random
    shape: FleetShape
    # leaf, rail, and until which second
    going: list[tuple[str, int, int]] = field(default_factory=list)

    def __call__(self, watch: MadeUpWatch, rows: Fleet, second: int) -> None:
        """Change a second."""
        chance, nodes = self.chance, watch.nodes
        if chance.random() < self.shape.rails * self.shape.blocks / BETWEEN_S:
            node = chance.choice(nodes)
            self.going.append(
                (node.leaf, chance.randrange(self.shape.rails), second + chance.randrange(3))
            )
        for leaf, rail, _ in self.going:
            for node, row in zip(nodes, rows, strict=True):
                row[rail].cnps_handled += chance.uniform(0, 3000)
                if node.leaf == leaf:
                    row[rail].marked += chance.uniform(0.01, 0.1)
                    row[rail].paused += chance.uniform(0, 0.2)
        if self.going:
            share = chance.uniform(0.67, 1)
            for row in rows:
                for own in row:
                    own.load *= share
        self.going = [each for each in self.going if each[2] > second]


@dataclass(frozen=True)
class Given:
    """A fault of a window."""

    name: str
    place: Place
    begin: int
    end: int

    @property
    def fault(self) -> WatchFault:
        """Return the fault."""
        return KINDS[self.name]

    def make(self) -> Fault:
        """Return what changes the seconds in which it is there."""
        change = self.fault.make(self.place)

        def at_times(watch: MadeUpWatch, rows: Fleet, second: int) -> None:
            if self.begin < second <= self.end:
                change(watch, rows, second)

        return at_times

    def is_of_kind(self, found: Finding) -> bool:
        """Return whether a verdict is of its kind, and of its rail."""
        return word(found) in (self.fault.kinds or ("victim",)) and found.rail == self.place[1]

    def is_place(self, found: Finding, shape: FleetShape) -> bool:
        """Return whether a verdict names its place; of victims, some of its leaf."""
        number = self.place[0]
        if not self.fault.kinds:
            return any(
                shape.leaf_name(number) == shape.leaf_name(shape.names.index(each))
                for each in found.nodes
            )
        if self.fault.is_leaf:
            return found.leaf == shape.leaf_name(number)
        return found.nodes == (shape.names[number],)


def rounds_of(count: int, seed: int, healthy: int) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield the windows of rounds, each with its seed and its faults: pairs of all kinds."""
    for number in range(seed, seed + count):
        names = sorted(KINDS)
        random.Random(f"pairs {number}").shuffle(names)  # noqa: S311 - repeatable
        for at in range(0, len(names) - 1, 2):
            yield number, (names[at], names[at + 1])
    for number in range(seed, seed + healthy):
        yield number, ()


def run_window(nodes: int, seed: int, names: Sequence[str]) -> Window:
    """Return what came of a window; the same arguments give the same one."""
    began, shape = time.process_time(), usual_shape(nodes)
    chance = random.Random(f"{nodes} {seed} {' and '.join(names)}")  # noqa: S311 - repeatable
    given = list(_draw(chance, shape, names))
    bursts = Bursts(random.Random(chance.random()), shape)  # noqa: S311 - repeatable
    faults: list[Fault] = [bursts, *(each.make() for each in given)]
    watching = Watching(MadeUpWatch(site_nodes(shape), chance.randrange(1 << 30), faults))
    first: dict[Given, tuple[float, bool]] = {}
    accused: dict[tuple[object, ...], str] = {}  # empty where a fault explains it
    for second in range(JUDGE_S, SECONDS + 1, JUDGE_S):
        watching.pass_seconds(JUDGE_S)
        verdicts = judge(watching.fleet())
        for each in given:
            own = [found for found in verdicts if each.is_of_kind(found)]
            if own and second > each.begin:
                is_right = all(each.is_place(found, shape) for found in own)
                first.setdefault(each, (second - each.begin, is_right))
        for found in verdicts:
            if (kind := word(found)) not in ("victim", "unknown"):
                key = kind, found.rail, found.leaf if found.level == "leaf" else found.nodes
                text = f"{second} s: {kind}, rail {found.rail}: {found.text[:200]}"
                is_right = any(_explains(each, found, shape) for each in given)
                accused.setdefault(key, "" if is_right else text)
    return Window(
        list(names),
        [each in first for each in given],
        [first[each][1] if each in first else False for each in given],
        [first[each][0] if each in first else None for each in given],
        len(accused),
        [text for text in accused.values() if text],
        round(time.process_time() - began, 1),
    )


def _draw(chance: random.Random, shape: FleetShape, names: Sequence[str]) -> Iterator[Given]:
    """Yield the faults of a window, on different rails."""
    rails = chance.sample(range(shape.rails), len(names))
    for name, rail in zip(names, rails, strict=True):
        begin = chance.randrange(60, 240)
        place = chance.randrange(shape.nodes), rail
        yield Given(name, place, begin, begin + chance.randrange(120, 300))


def _explains(given: Given, found: Finding, shape: FleetShape) -> bool:
    if word(found) in given.fault.also:
        return True
    return given.is_of_kind(found) and given.is_place(found, shape)


def windows(
    nodes: int, wanted: Sequence[tuple[int, tuple[str, ...]]], kept: Path | None, until: float
) -> Iterator[Window]:
    """Yield windows that are kept, and those that begin before a time (monotonic clock)."""
    known = {(*row["at"][:2], tuple(row["at"][2])): row["window"] for row in read_rows(kept)}
    for seed, names in wanted:
        at = nodes, seed, names
        if at in known:
            yield Window(**known[at])
        elif time.monotonic() < until:
            made = run_window(*at)
            add_row(kept, {"at": at, "window": asdict(made)})
            yield made


def table(nodes: int, made: Sequence[Window]) -> str:
    """Return the tables of windows, and then each false verdict."""
    bad, good = [each for each in made if each.kinds], [each for each in made if not each.kinds]
    lines = [HEAD] if bad else []
    all_: list[Verdict] = []
    steady: list[Verdict] = []
    for name in KINDS:
        own = [
            (window.found[at], window.right[at], window.after[at])
            for window in bad
            for at, kind in enumerate(window.kinds)
            if kind == name
        ]
        all_ += own
        steady += own if name not in AT_TIMES else ()
        lines += [_row(name, own)] if own else []
    fleet = f"{nodes} nodes × 8"
    if all_:
        lines += ["", f"{fleet}, two faults: {_totals(bad, all_, steady)}"]
    if good:
        days, false = nodes * len(good) * SECONDS / _DAY_S, sum(len(each.false) for each in good)
        lines += [
            "",
            f"{fleet}, healthy: {false} false in {len(good)} windows, {days:.0f} node-days:",
        ]
        lines += [f"fewer than {_most(false) / days:.3f} a node-day"]
    lines += ["", f"{sum(e.cpu_s for e in made) / max(1, len(made)):.0f} s of processor a window"]
    return "\n".join([*lines, *dict.fromkeys(text for each in made for text in each.false)])


def _row(name: str, own: Sequence[Verdict]) -> str:
    found, right = sum(is_found for is_found, *_ in own), sum(is_right for _, is_right, _ in own)
    after = sorted(each for *_, each in own if each is not None)
    times = f"{median(after):.0f} s | {after[-1]:.0f} s" if after else " | "
    return f"| {name} | {len(own)} | {found} | {right} | {times} |"


def _totals(made: Sequence[Window], own: Sequence[Verdict], steady: Sequence[Verdict]) -> str:
    found, right = sum(is_found for is_found, *_ in own), sum(is_right for _, is_right, _ in own)
    accused = sum(each.accused for each in made)
    good = accused - sum(len(each.false) for each in made)
    soon = sum(after is not None and after <= SOON_S for *_, after in steady)
    shares = {
        "recall": (found, len(own)),
        "precision": (good, accused),
        "right part": (right, found),
        f"without a break, named within {SOON_S} s": (soon, len(steady)),
    }
    return ", ".join(
        f"{name} {hits} of {many} ({hits / max(1, many):.3f}, above {least_share(hits, many):.3f})"
        for name, (hits, many) in shares.items()
    )


def _most(count: int) -> float:
    """Return the upper end of the 95 % interval of a Poisson count (Garwood, 1936).

    The mean with which `count` or fewer have a chance of 2.5 %.
    """
    low, high = 0.0, 10.0 * (count + 2)
    while high - low > 1e-6:
        middle = (low + high) / 2
        chance = sum(math.exp(-middle) * middle**n / math.factorial(n) for n in range(count + 1))
        low, high = (middle, high) if chance > 0.025 else (low, middle)
    return high
