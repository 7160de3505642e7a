"""What results.json has of the samples: figures of each rail, and the rates that the page draws."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rdmaprov.acceptance.samples.digest import NodeDigest, RailDigest
from rdmaprov.acceptance.samples.fleet import FleetSamples

MOST_POINTS = 240
_DIGITS = 4


def samples_as_data(fleet: FleetSamples | None) -> dict[str, Any] | None:
    """Return the samples as results.json has them; docs/results.schema.json describes it."""
    if fleet is None or not fleet.nodes:
        return None
    return {
        "step_s": max(node.step_s for node in fleet.nodes),
        "lasted_s": round(max(node.lasted_s for node in fleet.nodes), 1),
        "clock_s": round(fleet.clock_s, 1),
        "cpu_share": round(max(node.cpu_share for node in fleet.nodes), 5),
        "missing": sorted(fleet.missing),
        "rails": [_rail(fleet, node, rail) for node in fleet.nodes for rail in node.rails],
        "shown": _shown(fleet),
    }


def _rail(fleet: FleetSamples, node: NodeDigest, rail: RailDigest) -> dict[str, Any]:
    own = [event for event in node.events if event.rail == rail.rail]
    # A rail without a link sends nothing either.
    stopped = max((event.seconds for event in own if event.kind in ("link", "stopped")), default=0)
    return {
        "node": node.node,
        "rail": rail.rail,
        "mean_gb_s": _rounded(rail.mean),
        "least_gb_s": _rounded(rail.least),
        "most_gb_s": _rounded(rail.most),
        "stopped_share": _rounded(min(1.0, stopped / node.lasted_s)),
        "paused_share": _rounded(rail.paused[0]) if rail.paused else None,
        "counts": {name: count for name, count in rail.counts.items() if count},
        "events": [
            {
                "kind": event.kind,
                "count": event.count,
                "from_s": _since(fleet, node, event.spans[0].from_s) if event.spans else None,
                "seconds": round(event.seconds, 1),
            }
            for event in own
        ],
    }


def _since(fleet: FleetSamples, node: NodeDigest, seconds: float) -> float:
    return round(fleet.since_start(node, seconds), 1)


def worst_node(fleet: FleetSamples) -> NodeDigest:
    """Return the node with most events, of these the one with the slowest rail."""
    return max(
        fleet.nodes,
        key=lambda node: (len(node.events), -min((r.mean for r in node.rails), default=0.0)),
    )


def _shown(fleet: FleetSamples) -> dict[str, Any]:
    """Return the rates of the worst node's rails, and the range of the same rails of all."""
    worst = worst_node(fleet)
    step = max(node.step_s for node in fleet.nodes)
    first = math.floor(fleet.began_s / step)
    last = max(math.ceil((n.samples_began_s + n.lasted_s) / step) for n in fleet.nodes)
    each = -(-(last - first) // MOST_POINTS)  # bins of a point
    points = -(-(last - first) // each)
    rails = []
    for place in worst.rails:
        own = {
            node.node: _points(fleet, node, place.rail, (first, step * each, points))
            for node in fleet.nodes
            if place.rail < len(node.rails)
        }
        rows = [sorted(v for v in row if v is not None) for row in zip(*own.values(), strict=True)]
        rails.append(
            {
                "rail": place.rail,
                "gb_s": own[worst.node],
                "low": [_quantile(row, 0.05) for row in rows],
                "median": [_quantile(row, 0.5) for row in rows],
                "high": [_quantile(row, 0.95) for row in rows],
            }
        )
    return {"node": worst.node, "nodes": len(fleet.nodes), "step_s": step * each, "rails": rails}


def _points(
    fleet: FleetSamples, node: NodeDigest, rail: int, grid: tuple[int, float, int]
) -> list[float | None]:
    """Return a rail's mean rates on the grid of the picture, None where nothing was read."""
    first, step, count = grid
    began = node.began_s - fleet.lags_s.get(node.node, 0)
    start = first * max(each.step_s for each in fleet.nodes)
    own: list[list[float]] = [[] for _ in range(count)]
    for place, rate in enumerate(node.rails[rail].sent):
        to = int((began + (place + 0.5) * node.step_s - start) / step)
        if 0 <= to < count and not math.isnan(rate):
            own[to].append(rate)
    return [_rounded(sum(rates) / len(rates)) if rates else None for rates in own]


def _quantile(row: Sequence[float], share: float) -> float | None:
    return row[round(share * (len(row) - 1))] if row else None


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")
