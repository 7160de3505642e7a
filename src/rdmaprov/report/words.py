"""Numbers, times and counts as the page writes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any


def quantity(number: int, what: str) -> str:
    """Return a number of things, such as `1,024 nodes`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def duration(seconds: float) -> str:
    """Return a time as people say it.

    >>> duration(3725.2), duration(61), duration(4.21)
    ('1 h 2 min', '1 min 1 s', '4.2 s')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def nodes_by_state(nodes: Mapping[str, Any], words: Mapping[str, str]) -> str:
    """Return how many nodes are in which state, in the order of the words.

    Args:
        nodes: by name; each has a `state`.
        words: how each state is called.

    """
    counts = Counter(node["state"] for node in nodes.values())
    states = [f"{counts[state]:,} {word}" for state, word in words.items() if counts[state]]
    return f"{quantity(len(nodes), 'node')}: {', '.join(states)}"
