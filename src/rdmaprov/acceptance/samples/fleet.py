"""The samples of all nodes, laid over each other in time, and what results.json has of them."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rdmaprov.acceptance.samples.digest import NodeDigest, RailDigest, busy_mask, digest_samples
from rdmaprov.acceptance.samples.track import IDLE_SHARE, usual
from rdmaprov.boundary import OddAnswer

# As far as preflight lets clocks differ: acceptance/preflight/needs.py.
MAX_LAG_S = 2.0
# A shift must explain this much more of what is seen than none; our choice, as bins are noisy.
_BETTER = 0.9
# Of the time of a run; fewer of a large fleet, where a bin of 4,096 rails costs a millisecond.
MOST_BINS = 1024
_FEW = 64
# From here on the end of a run is a silence, and not the pause before the last message: our choice.
SILENCE_S = 5.0
_DIGITS = 4


@dataclass(frozen=True)
class FleetSamples:
    """What samplers saw."""

    nodes: tuple[NodeDigest, ...]  # in the order of ranks
    missing: Mapping[str, str]  # why there is nothing, by node
    # how far a node's clock is ahead of most others, by node; work that all ranks do together shows
    # it
    lags_s: Mapping[str, float] = field(default_factory=dict)
    clock_s: float = 0.0  # what remains uncertain of the times of two nodes

    @property
    def began_s(self) -> float:
        """Return when the first sampler began, by most clocks."""
        return min(each.samples_began_s - self.lags_s.get(each.node, 0) for each in self.nodes)

    def since_start(self, node: NodeDigest, seconds: float) -> float:
        """Return a time of a node's sampler as seconds since the first sampler began."""
        return node.samples_began_s - self.lags_s.get(node.node, 0) + seconds - self.began_s


def collect_samples(
    files: Mapping[str, bytes], rails: Mapping[str, int], together: bool
) -> FleetSamples:
    """Return what samplers saw, and of which nodes there is nothing.

    Args:
        files: what each node's sampler wrote; empty if it wrote nothing.
        together: whether the ranks used all rails at the same time.
    """
    found: list[NodeDigest] = []
    missing: dict[str, str] = {}
    bins = MOST_BINS // 2 if len(files) > _FEW else MOST_BINS
    for name, data in files.items():
        if not data:
            missing[name] = "it returned no samples"
            continue
        try:
            found.append(digest_samples(name, data, rails[name], together, bins))
        except OddAnswer as error:
            missing[name] = str(error)
    lags, clock = clock_lags(found)
    return FleetSamples(tuple(found), missing, lags, clock)


def clock_lags(nodes: Sequence[NodeDigest]) -> tuple[dict[str, float], float]:
    """Return how far clocks are ahead of most, and how uncertain times remain.

    All ranks start and end a message together, so the times at which most nodes send are the times
    of each node, up to the length of a bin.
    """
    step = max((each.step_s for each in nodes), default=0.1)
    own = {n.node: (busy_mask(n.rails), round(n.began_s / step)) for n in nodes if n.step_s == step}
    if len(own) < 3:
        return {}, 2 * step + MAX_LAG_S
    first = min(begin for _, begin in own.values())
    masks = {name: mask << (begin - first) for name, (mask, begin) in own.items()}
    most = _majority(list(masks.values()))
    reach = math.ceil(MAX_LAG_S / step)
    lags = {}
    for name, mask in masks.items():
        differ = {lag: (_shift(mask, -lag) ^ most).bit_count() for lag in range(-reach, reach + 1)}
        best = min(differ, key=lambda lag: (differ[lag], abs(lag)))
        if best and differ[best] < _BETTER * differ[0]:
            lags[name] = best * step
    return lags, 2 * step


def _majority(masks: Sequence[int]) -> int:
    """Return the bits that at least half of the masks have."""
    width = max(mask.bit_length() for mask in masks)
    texts = [f"{mask:0{width}b}" for mask in masks]
    half = len(masks) / 2
    return int(
        "".join(
            "1" if bits.count("1") >= half else "0"
            for bits in map("".join, zip(*texts, strict=True))
        )
        or "0",
        2,
    )


def _shift(mask: int, by: int) -> int:
    return mask << by if by >= 0 else mask >> -by


def last_sent(fleet: FleetSamples) -> dict[tuple[str, int], float]:
    """Return when each rail that sent did so last, in seconds since the first sampler began."""
    found = {}
    for node in fleet.nodes:
        for rail in node.rails:
            least = IDLE_SHARE * usual([v for v in rail.sent if not math.isnan(v)])
            busy = [place for place, rate in enumerate(rail.sent) if rate > least]
            if busy and least:
                end = node.began_s + (busy[-1] + 1) * node.step_s - node.samples_began_s
                found[node.node, rail.rail] = fleet.since_start(node, end)
    return found


def first_silence(fleet: FleetSamples) -> str:
    """Return which rail was silent first at the end of a run that hung; empty if it did not.

    Where the first is closer to the next than clocks and bins can tell, nobody is named.
    """
    ends = sorted((end, where) for where, end in last_sent(fleet).items())
    if len(ends) < 3:
        return ""
    lasted = max(fleet.since_start(node, node.lasted_s) for node in fleet.nodes)
    if lasted - statistics.median(end for end, _ in ends) < SILENCE_S:
        return ""
    (first, (name, rail)), (second, _) = ends[:2]
    step = max(node.step_s for node in fleet.nodes)
    when = f"all rails were silent from {ends[-1][0]:.1f} s on"
    if second - first <= max(fleet.clock_s, 2 * step):
        return (
            f"{when}; which one stopped first is closer than {max(fleet.clock_s, 2 * step):.1f} s"
        )
    return f"{when}; {name} rail {rail} stopped first, {second - first:.1f} s before the next"


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


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")
