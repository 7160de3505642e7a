"""Nodes that are not like the others of their kind."""

from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass

# The kind of values of which no two may be equal.
UNIQUE = "unique"


@dataclass(frozen=True)
class Sample:
    """One value of a node's."""

    node: str
    device: str  # the part of it that has the value; empty for the node itself
    kind: Hashable  # what makes values comparable: nodes and devices of another kind may differ
    value: str


@dataclass(frozen=True)
class Odd:
    """A sample that differs from most of its kind."""

    sample: Sample
    usual: str  # the value that most have; several, with commas, where no value is the usual one
    share: str


def odd_ones(samples: list[Sample]) -> list[Odd]:
    """Return the samples that do not have the usual value of their kind.

    Where several values are as frequent, nobody can say which is right: all are returned.
    """
    kinds: dict[Hashable, list[Sample]] = {}
    for sample in samples:
        kinds.setdefault(sample.kind, []).append(sample)
    return [odd for each in kinds.values() for odd in _odd_of_kind(each)]


def _odd_of_kind(samples: list[Sample]) -> list[Odd]:
    counts = Counter(sample.value for sample in samples)
    most = max(counts.values())
    usual = sorted(value for value, count in counts.items() if count == most)
    if len(counts) == 1:
        return []
    share = f"{most} of {len(samples)}" if len(usual) == 1 else "no majority"
    return [
        Odd(sample, ", ".join(usual), share)
        for sample in samples
        if len(usual) > 1 or sample.value != usual[0]
    ]


def make_samples(node: str, values: Mapping[str, str], kind: Hashable = None) -> list[Sample]:
    """Return a sample for each of a node's devices; each name is a kind of its own."""
    return [Sample(node, name, (name, kind), value) for name, value in values.items()]
