"""Errors of a node's rails over the last seconds: what the rate of a long watch would allow."""

from __future__ import annotations

import functools
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rdmaprov.rail_counters import link_errors
from rdmaprov.rail_counters import lost_packets as lost_paths
from rdmaprov.watch.columns import Key
from rdmaprov.watch.thresholds import ERROR_WINDOW_S, ERROR_WINDOWS

_DISCARDS = re.compile(r"ethtool\.rx_prio\d_discards")


@functools.cache
def _has_rate(name: str) -> bool:
    """Return whether a link may have some of these errors, by its rate."""
    return (
        name in link_errors.RATED
        or name in lost_paths.COUNTERS
        or _DISCARDS.fullmatch(name) is not None
    )


@dataclass(frozen=True)
class ErrorBurst:
    """More errors than a link may have in some seconds: how many, and in how many."""

    count: int
    seconds: float


class ErrorWindows:
    """The rails of one node.

    Args:
        gbps: line rate of each, 0 if the site does not say it.

    Attributes:
        worst: by counter, the most errors that were beyond what a link may have meanwhile.
    """

    def __init__(self, gbps: Sequence[int]) -> None:
        self.worst: dict[Key, ErrorBurst] = {}
        self._gbps = gbps
        self._length_s = 0.0
        # Where the last windows began: how long each was, and the errors until then.
        self._windows: deque[tuple[float, dict[Key, int]]] = deque(maxlen=ERROR_WINDOWS)
        self._before: dict[Key, int] = {}

    def add(self, totals: Mapping[Key, int], seconds: float) -> None:
        """Take in one answer of the node, which is in the totals already."""
        self._length_s += seconds
        if self._length_s < 0.95 * ERROR_WINDOW_S:
            return
        self._windows.append((self._length_s, self._before))
        length_s = sum(each for each, _ in self._windows)
        for key, count in self._grown(totals):
            known = self.worst.get(key)
            is_more = known is None or count > known.count
            bits = 1e9 * self._gbps[key[0]] * length_s
            if is_more and count > link_errors.most_errors(bits):
                self.worst[key] = ErrorBurst(count, length_s)
        self._before = {key: count for key, count in totals.items() if count and _has_rate(key[1])}
        self._length_s = 0.0

    def _grown(self, totals: Mapping[Key, int]) -> Iterator[tuple[Key, int]]:
        first = self._windows[0][1]
        for key, total in totals.items():
            if total and _has_rate(key[1]) and (grown := total - first.get(key, 0)):
                yield key, grown
