"""Which priority the traffic of path tests had, by what both ends counted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rdmaprov.boundary import Document
from rdmaprov.finding.finding import Finding
from rdmaprov.inventory import Node
from rdmaprov.rail_counters import traffic as counters
from rdmaprov.rail_counters.traffic import PRIORITY_SHARE, RailTraffic, rail_traffic
from rdmaprov.words import quantity

# Below this much, what else the node receives is not small beside it.
_LEAST_BYTES = 16 << 20


def judge_priorities(
    nodes: Sequence[Node], before: Mapping[str, Document], after: Mapping[str, Document]
) -> tuple[list[Finding], list[str]]:
    """Return the rails whose traffic had another priority than the site's, and notes.

    The sender marks packets, so it comes first; where every sender is right, a rail that receives
    another priority classifies packets wrongly, or a switch changed them.

    Args:
        before: what the reader returned before the tests, by node.
    """
    moved = {
        node.name: rail_traffic(node, before[node.name], after[node.name])
        for node in nodes
        if node.name in before and node.name in after
    }
    findings: list[Finding] = []
    silent = 0
    for node in nodes:
        own = [each for each in moved.get(node.name, ()) if _counts(each)]
        silent += len(moved.get(node.name, ())) - len(own)
        findings += counters.priorities(node, own)
    if not findings:
        for node in nodes:
            findings += _received(node, moved.get(node.name, ()))
    why = "the driver has no tx_prioN_bytes (ethtool -S)"
    rails = quantity(silent, "rail")
    return findings, [f"priority of the paths of {rails} not verified: {why}"] if silent else []


def _counts(rail: RailTraffic) -> bool:
    return any(f"ethtool.tx_prio{number}_bytes" in rail.delta for number in range(8))


def _received(node: Node, rails: Sequence[RailTraffic]) -> Iterator[Finding]:
    wanted = int(node.get("fabric_lossless_priority"))
    for each in rails:
        got = {n: each.delta.get(f"ethtool.rx_prio{n}_bytes") or 0 for n in range(8)}
        total = sum(got.values())
        if total >= _LEAST_BYTES and got[wanted] < PRIORITY_SHARE * total:
            most = max(got, key=lambda number: got[number])
            what = (
                f"{100 * got[wanted] / total:.0f} % of the bytes that it received had priority "
                f"{wanted} (fabric_lossless_priority), expected at least "
                f"{100 * PRIORITY_SHARE:.0f} %; most had {most}, and all senders sent {wanted} "
                "(ethtool -S)"
            )
            remedy = (
                f"On {node.name}, check trust and the DSCP map (rdmaprov validate SITE --limit "
                f"{node.name}); then whether its switch changes the DSCP"
            )
            yield Finding("traffic.priority", what, remedy, each.node, each.rail)
