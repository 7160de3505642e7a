"""A replaced node and its witnesses as a fleet, with faults of the node alone."""

from collections.abc import Iterator
from dataclasses import dataclass

from tests.madeup.accept import accept
from tests.madeup.faults import FaultKind
from tests.madeup.fleet import MadeUpFleet
from tests.madeup.shape import NOISE, FleetShape
from tests.madeup.trials import HEALTHY, Trial, judge

from rdmaprov.acceptance.stage_report import USUAL

_REPLACED = 0  # the number of the node
_ON_A_NODE = frozenset({"node", "rail", "rank"})
_MOST_SEEDS = 500


@dataclass(frozen=True)
class Beside:
    count: int
    per_leaf: int

    @property
    def shape(self) -> FleetShape:
        return FleetShape(1 + self.count, per_leaf=self.per_leaf)


USED = (Beside(4, 3), Beside(4, 2), Beside(4, 1), Beside(2, 3))


def seeds_of(kind: FaultKind, shape: FleetShape, start: int) -> Iterator[int]:
    for seed in range(start, start + _MOST_SEEDS):
        truths = MadeUpFleet(shape, kind, seed, NOISE).truths
        if truths and all(t.nodes == (_REPLACED,) and t.level in _ON_A_NODE for t in truths):
            yield seed


def trials_of(kind: FaultKind | None, beside: Beside, count: int, start: int) -> list[Trial]:
    """Return trials of a kind, or of good nodes; none if its faults are not a node's."""
    seeds = seeds_of(kind, beside.shape, start) if kind else iter(range(start, start + count))
    chosen = [seed for seed, _ in zip(seeds, range(count), strict=False)]
    name = kind.name if kind else HEALTHY
    return [judge(name, accept(beside.shape, kind, seed, stages=USUAL)) for seed in chosen]
