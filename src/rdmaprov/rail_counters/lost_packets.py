"""Where packets are lost that only their senders miss: in a leaf, at an end, or on a path.

A sender learns from NAKs and timeouts that packets were lost, not where. A link that loses in both
directions makes its own node miss as many as all its peers together; a leaf makes its nodes do so.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from rdmaprov.finding.finding import Finding
from rdmaprov.node.counter_names import RESENT, RETRIES, judged
from rdmaprov.rail_counters.traffic import RailTraffic

# Half of all losses are those of the bad end; the rest is for chance. Our choices.
_END_SHARE = 0.4
_TIMES_THE_NEXT = 1.5
_LEAF_SHARE = 0.5
DURING = "during the run"
_REMEDY = "Check counters and PFC of the switch ports on this rail, then the cables"
COUNTERS = tuple(judged(RESENT))
_GAVE_UP = judged(RETRIES)


def findings(
    rails: Sequence[RailTraffic], leaves: Mapping[str, str], during: str = DURING
) -> list[Finding]:
    """Return where packets are lost.

    Args:
        rails: those that missed more packets than a link may lose.
    """
    by_rail: dict[int, dict[str, int]] = defaultdict(dict)
    for each in rails:
        by_rail[each.rail][each.node] = sum(each.delta.get(name, 0) for name in COUNTERS)
    leaf_of = {rail: _leaf(lost, leaves) for rail, lost in by_rail.items()}
    found = []
    for leaf in sorted(set(leaf_of.values()) - {""}):
        own = [rail for rail, of in leaf_of.items() if of == leaf]
        nodes = tuple(node for node, of in leaves.items() if of == leaf)
        what = f"leaf {leaf} loses packets: {_count(by_rail[own[0]], during)}"
        single = own[0] if len(own) == 1 else None
        found.append(
            Finding(
                "packets.lost", what, _REMEDY, rail=single, level="leaf", nodes=nodes, leaf=leaf
            )
        )
    found += [_on_rail(rail, lost, during) for rail, lost in by_rail.items() if not leaf_of[rail]]
    return found


def ended_connections(rails: Iterable[RailTraffic], during: str = DURING) -> Iterator[Finding]:
    """Yield the rails of which connections ended: who counts it may be the victim of its peer."""
    by_rail: dict[int, dict[str, int]] = defaultdict(dict)
    for each in rails:
        if count := sum(each.delta.get(name, 0) for name in _GAVE_UP):
            by_rail[each.rail][each.node] = count
    for rail, counts in sorted(by_rail.items()):
        (name, means), nodes = next(iter(_GAVE_UP.items())), tuple(sorted(counts))
        what = f"{sum(counts.values())} {means} {during} ({name}), expected 0: at these nodes, at"
        what += " their peers or between them, which counters do not tell"
        remedy = "NCCL's log names both ends (rdmaprov explain nccl-log); test that path alone"
        level = "fleet" if len(nodes) > 1 else "rail"
        yield Finding(
            "packets.lost", what, remedy, rail=rail, level=level, nodes=nodes, proven=False
        )


def _count(lost: Mapping[str, int], during: str) -> str:
    total, most = sum(lost.values()), max(lost, key=lambda node: lost[node])
    return (
        f"{len(lost)} nodes had to send {total} packets again {during}, most of them {most} "
        f"({lost[most]}; NAKs and timeouts in hw_counters)"
    )


def _leaf(lost: Mapping[str, int], leaves: Mapping[str, str]) -> str:
    """Return the leaf that loses packets: most of its nodes miss some, together half of all."""
    inside: dict[str, list[int]] = defaultdict(list)
    for node, count in lost.items():
        inside[leaves.get(node, "")].append(count)
    order = sorted(inside, key=lambda name: -sum(inside[name]))
    leaf, rest = order[0], [sum(inside[name]) for name in order[1:]]
    size = sum(of == leaf for of in leaves.values())
    is_whole = len(inside[leaf]) > max(1, _LEAF_SHARE * size)
    stands_out = not rest or sum(inside[leaf]) >= _TIMES_THE_NEXT * rest[0]
    is_half = sum(inside[leaf]) >= _END_SHARE * sum(lost.values())
    several = len(set(leaves.values())) > 1
    return leaf if leaf and several and is_whole and stands_out and is_half else ""


def worst_end(lost: Mapping[str, int]) -> str:
    """Return the node that misses as many packets as all others, empty if there is none."""
    order = sorted(lost, key=lambda node: -lost[node])
    first, rest = lost[order[0]], [lost[node] for node in order[1:]]
    stands_out = not rest or first >= _TIMES_THE_NEXT * rest[0]
    return order[0] if stands_out and first >= _END_SHARE * sum(lost.values()) else ""


def _on_rail(rail: int, lost: Mapping[str, int], during: str) -> Finding:
    """Return the end that misses as many as all others, else all that miss some, as unknown."""
    if end := worst_end(lost):
        what = f"loses packets: {_count(lost, during)}"
        return Finding("packets.lost", what, _REMEDY, end, rail, values=lost)
    order = sorted(lost, key=lambda node: -lost[node])
    what = f"packets are lost between these nodes: {_count(lost, during)}"
    level = "pair" if len(lost) == 2 else "fleet"
    return Finding("packets.lost", what, _REMEDY, rail=rail, level=level, nodes=tuple(order))
