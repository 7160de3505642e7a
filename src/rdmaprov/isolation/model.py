"""What an isolation finds."""

from dataclasses import dataclass


@dataclass(frozen=True)
class FaultyPart:
    """A part that tests of groups accuse: a hypothesis, not yet a finding.

    A search merges parts of several rails, names the rail of a node, and drops what follows from
    another one. What is left becomes findings (`acceptance/live/isolate.py`).

    Args:
        kind: node, rail, pair, leaf or fleet.
        nodes: the node, the two of a pair, all of the leaf, or those that the fault was seen with.
        name: the leaf's name, or two leaves' names; empty where there is none.
        rail: the rail; None unless it is of one.
        remedy: what to do; empty for what is usual for its kind.
    """

    kind: str
    nodes: tuple[str, ...]
    proven: bool
    why: str
    name: str = ""
    rail: int | None = None
    hang: bool = False
    comes_and_goes: bool = False
    remedy: str = ""
