"""How the findings of a watch are named, printed and kept."""

from collections import Counter
from collections.abc import Iterator, Sequence

from rdmaprov.finding.finding import Finding
from rdmaprov.problem import printable
from rdmaprov.runs.groups import fold_names, merge_lost
from rdmaprov.words import quantity

# The `kind` that results.json has had from the first, by the kinds of findings.
_WORDS = {
    "gpu.xid": "gpu",
    "node.fault": "node",
    "link.down": "link",
    "link.errors": "loss",
    "link.symbols": "symbols",
    "packets.discarded": "loss",
    "packets.lost": "loss",
    "traffic.congested": "congestion",
    "traffic.held": "victim",
    "traffic.paused": "storm",
    "traffic.pauses": "receiver",
    "traffic.priority": "priority",
    "traffic.share": "imbalance",
}
VICTIM, UNKNOWN = "victim", "unknown"  # the two that accuse nobody
TITLES = {
    "gpu": "GPU error",
    "node": "fault of the node",
    "link": "link",
    "symbols": "symbol errors",
    "storm": "storm of pause",
    "receiver": "slow receiver",
    "congestion": "congestion",
    "loss": "loss",
    "priority": "wrong priority",
    "imbalance": "imbalance",
    VICTIM: "victim of pause",
    UNKNOWN: "unknown",
}
_MOST_LINES = 8  # of one kind; a leaf that is off has dozens


def word(found: Finding) -> str:
    """Return what a finding is about, one of TITLES."""
    return _WORDS[found.kind] if found.proven else UNKNOWN


def finding_lines(findings: Sequence[Finding], rest: str) -> Iterator[tuple[Finding, str]]:
    """Yield findings with their lines; of many of one kind the first, then who the others are."""
    findings = merge_lost(findings)
    words = [word(each) for each in findings]
    counts, shown = Counter(words), Counter[str]()
    for each, own in zip(findings, words, strict=True):
        shown[own] += 1
        if shown[own] <= _MOST_LINES or counts[own] == _MOST_LINES + 1:
            yield each, line(each)
        elif shown[own] == counts[own]:
            others = [one for one in findings if word(one) == own][_MOST_LINES:]
            names = fold_names({name for one in others for name in one.nodes})
            yield each, f"{names}: {TITLES[own]}: {len(others)} more, in {rest}"


def _where(found: Finding) -> str:
    """Return what a finding names."""
    many = len(found.nodes) > 1
    names = f"{quantity(len(found.nodes), 'node')} ({fold_names(found.nodes)})" if many else ""
    rail = "" if found.rail is None else f"rail {found.rail}"
    parts = [part for part in (found.node or names, rail) if part]
    if found.leaf:
        parts.append(f"(leaf {found.leaf})" if parts else f"leaf {found.leaf}")
    return " ".join(parts) or "fleet"


def key(found: Finding) -> tuple[object, ...]:
    """Return what makes a finding the same one at another time."""
    why = () if found.proven else (found.kind, found.part)
    return word(found), found.nodes, found.rail, found.leaf, why


def line(found: Finding) -> str:
    """Return a finding as one line."""
    title = "unreachable" if found.unreachable else TITLES[word(found)]
    return printable(f"{_where(found)}: {title}: {found.what}. {found.remedy}")


def as_data(found: Finding) -> dict[str, object]:
    """Return a finding as JSON has it: `kind` is one of TITLES, `finding` the kind's id."""
    own = found.as_data()
    names = ("nodes", "level", "rail", "leaf", "part", "what", "remedy", "proven", "values")
    return {"kind": word(found), "finding": found.kind} | {name: own[name] for name in names}
