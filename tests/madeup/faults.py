"""The registry of fault kinds: what each changes, and what a right diagnosis of it names."""

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import wraps
from pathlib import Path

import yaml
from tests.madeup.condition import Condition

Chance = random.Random
Port = tuple[int, int]


@dataclass(frozen=True)
class Truth:
    """What is at fault: of a pair both ends, of a leaf all nodes, of the fleet none."""

    level: str
    nodes: tuple[int, ...] = ()
    rail: int | None = None


Breaks = Callable[[Condition, Chance], tuple[Truth, ...]]


@dataclass(frozen=True)
class FaultKind:
    """A way in which a fleet can be bad.

    `breaks` returns what is at fault, the sharpest name first; what comes behind it is right as
    well, as nothing that can be measured tells them apart.
    """

    name: str
    changes: str
    source: str
    level: str
    breaks: Breaks
    held_out: bool = False
    same_as: str = ""


FAULTS: dict[str, FaultKind] = {}
_TEXTS = yaml.load(Path(__file__).with_suffix(".yml").read_text(), Loader=yaml.CSafeLoader)


def register(name: str, breaks: Breaks) -> Breaks:
    FAULTS[name] = FaultKind(name, breaks=breaks, **_TEXTS[name])
    return breaks


def fault(breaks: Breaks) -> Breaks:
    return register(breaks.__name__.replace("_", "-"), breaks)


def of_any_node(change: Callable[[Condition, Chance, int], Iterable[int] | None]) -> Breaks:
    """Register a fault of one node; a change may return rails that are as right to name."""

    @wraps(change)
    def breaks(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
        node = any_node(condition, chance)
        rails = change(condition, chance, node) or ()
        return (*of_node(node), *(Truth("rail", (node,), rail) for rail in rails))

    return fault(breaks)


def of_any_port(change: Callable[[Condition, Chance, Port], object]) -> Breaks:
    @wraps(change)
    def breaks(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
        port = any_port(condition, chance)
        change(condition, chance, port)
        return of_rail(*port)

    return fault(breaks)


def kinds(held_out: bool = False) -> Iterator[FaultKind]:
    """Yield the kinds, in the order of faults.yml; those that are held out only where asked."""
    # They register themselves when they are imported.
    from tests.madeup import fabric_faults, node_faults, process_faults

    assert fabric_faults, node_faults
    assert process_faults
    for name in _TEXTS:
        if held_out or not FAULTS[name].held_out:
            yield FAULTS[name]


def any_node(condition: Condition, chance: Chance) -> int:
    return chance.randrange(condition.shape.nodes)


def any_port(condition: Condition, chance: Chance) -> Port:
    return any_node(condition, chance), chance.randrange(condition.shape.rails)


def any_gpu(condition: Condition, chance: Chance) -> tuple[int, int]:
    return any_node(condition, chance), chance.randrange(condition.shape.gpus)


def of_rail(node: int, rail: int) -> tuple[Truth, ...]:
    return (Truth("rail", (node,), rail),)


def of_node(node: int) -> tuple[Truth, ...]:
    return (Truth("node", (node,)),)


def of_rank(node: int) -> tuple[Truth, ...]:
    return (Truth("rank", (node,)),)


def of_gpu(node: int) -> tuple[Truth, ...]:
    """Return the truth that a GPU is slow: a collective tells the node, not which of its GPUs."""
    return (Truth("node", (node,)), Truth("rank", (node,)))


def of_leaf(condition: Condition, block: int, rail: int | None) -> tuple[Truth, ...]:
    nodes = tuple(n for n in range(condition.shape.nodes) if condition.shape.block_of(n) == block)
    return (Truth("leaf", nodes, rail),)
