"""Tests of single paths as results.json has them."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from typing import Any

from rdmaprov.perftest.matrix import PathKey, PathMatrix


def paths_as_data(
    nodes: Sequence[str], bandwidth: PathMatrix, latency: PathMatrix, expected: str
) -> dict[str, Any]:
    """Return all paths, one short row each: thousands of nodes have tens of thousands.

    Args:
        nodes: names, in the site's order.
    """
    limits = {bandwidth.limit(path) for path in bandwidth.samples} or {bandwidth.share}
    number = {name: place for place, name in enumerate(nodes)}
    return {
        "expected": expected,
        "limit": round(min(limits), 4),
        "rounds": bandwidth.rounds + latency.rounds,
        "names": list(nodes),
        "leaves": [bandwidth.leaf_of.get(name, "") for name in nodes],
        "rows": list(_rows(number, bandwidth, latency)),
    }


def _rows(
    number: dict[str, int], bandwidth: PathMatrix, latency: PathMatrix
) -> Iterator[list[Any]]:
    """Yield for each path: sender, receiver, both rails, GB/s, share of good, µs, error."""
    for path in sorted({*bandwidth.samples, *bandwidth.unknown}):
        is_known = path in bandwidth.samples
        error = bandwidth.errors.get(path) or ("" if is_known else bandwidth.unknown[path])
        yield [
            number[path.sender],
            number[path.receiver],
            path.rail,
            path.into,
            round(bandwidth.gb_s(path), 3) if is_known else None,
            round(bandwidth.value(path), 4) if is_known else None,
            _usec(latency, path),
            error,
        ]


def _usec(latency: PathMatrix, path: PathKey) -> float | None:
    values = [sample.value for sample in latency.samples.get(path, ()) if sample.value]
    return round(1 / statistics.median(values), 2) if values else None
