"""The registry of fault kinds: what each changes, and what a right diagnosis of it names."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tests.madeup.condition import Condition

Chance = random.Random


@dataclass(frozen=True)
class Truth:
    """What is at fault, by the fleet's own numbers.

    Args:
        level: `node`, `rank`, `rail`, `leaf`, `pair` or `fleet`.
        nodes: the node, both ends of a pair, or all nodes of a leaf; none for the fleet.
        rail: its number, None if it is about no single rail.
    """

    level: str
    nodes: tuple[int, ...] = ()
    rail: int | None = None


Breaks = Callable[[Condition, Chance], tuple[Truth, ...]]


@dataclass(frozen=True)
class FaultKind:
    """A way in which a fleet can be bad.

    Args:
        name: short.
        changes: what it changes physically.
        source: where this fault, or its effect, was seen.
        level: at which level a right diagnosis names it.
        breaks: changes the condition; returns what is at fault, the sharpest name first. What
            comes behind it is right as well, as nothing that can be measured tells them apart.
        held_out: kept for the test alone, and not used while a diagnosis is made.
        same_as: what it cannot be told from, for the table.
    """

    name: str
    changes: str
    source: str
    level: str
    breaks: Breaks
    held_out: bool = False
    same_as: str = ""


FAULTS: dict[str, FaultKind] = {}


def fault(
    name: str,
    changes: str,
    source: str,
    level: str,
    *,
    held_out: bool = False,
    same_as: str = "",
    registry: dict[str, FaultKind] = FAULTS,
) -> Callable[[Breaks], Breaks]:
    """Register a kind of fault by the function that breaks a fleet."""

    def register(breaks: Breaks) -> Breaks:
        registry[name] = FaultKind(name, changes, source, level, breaks, held_out, same_as)
        return breaks

    return register


def kinds(held_out: bool = False) -> Iterator[FaultKind]:
    """Yield the registered kinds, in order; those that are held out only where asked."""
    # They register themselves when they are imported.
    from tests.madeup import fabric_faults, node_faults, process_faults

    assert fabric_faults, node_faults
    assert process_faults
    for kind in FAULTS.values():
        if held_out or not kind.held_out:
            yield kind


def any_node(condition: Condition, chance: Chance) -> int:
    return chance.randrange(condition.shape.nodes)


def any_port(condition: Condition, chance: Chance) -> tuple[int, int]:
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
    """Return the truth that a leaf switch is bad: all its nodes, on one rail."""
    nodes = tuple(n for n in range(condition.shape.nodes) if condition.shape.block_of(n) == block)
    return (Truth("leaf", nodes, rail),)
