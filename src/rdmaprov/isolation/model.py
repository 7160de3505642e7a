"""What an isolation finds."""

from collections.abc import Sequence
from dataclasses import dataclass

from rdmaprov.finding.finding import Finding
from rdmaprov.words import some

_REMEDIES = {
    "node": "Drain {who}, then run: rdmaprov accept SITE --limit 'all:!{pattern}'",
    "rail": "On {who}, check the rail's slot (lspci -vv), link (ethtool, mlxlink), cable and port",
    "leaf": "On leaf {who}, check uplinks, PFC and discards; compare the site's fabric_leaf",
    "pair": "Check the switch ports between {who}: errors, discards, load of each uplink",
    "fleet": "Check the spines: links that are down, adaptive routing, load of each uplink",
}


@dataclass(frozen=True)
class FaultyPart:
    """A part that tests of groups accuse: a hypothesis, not yet a finding.

    A search merges parts of several rails, names the rail of a node, and drops what follows from
    another one. What is left becomes findings.

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


def findings(parts: Sequence[FaultyPart]) -> list[Finding]:
    """Return what is at fault as findings; what is not sure is unknown."""
    return [_finding(part) for part in parts]


def _finding(part: FaultyPart) -> Finding:
    who = part.name or some(part.nodes, 4)
    subject = {"node": "bad node", "rail": "bad rail", "pair": "bad node pair"}.get(
        part.kind, f"bad {part.kind}" if part.kind == "leaf" else "the fabric"
    )
    what = f"{subject} {who}, {'high' if part.proven else 'low'} confidence: {part.why}"
    return Finding(
        "part.slow",
        f"{what}; it hung" if part.hang else what,
        part.remedy or _REMEDIES[part.kind].format(who=who, pattern=":!".join(part.nodes)),
        rail=part.rail,
        proven=part.proven,
        level=part.kind,
        nodes=part.nodes,
        leaf=part.name if part.kind == "leaf" else "",
    )
