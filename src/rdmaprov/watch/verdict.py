"""What a watch concludes of a rail, a node, a leaf or the fleet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from rdmaprov.problem import printable
from rdmaprov.runs.groups import fold_names
from rdmaprov.words import quantity


class VerdictKind(StrEnum):
    """What a verdict is about; VICTIM accuses nobody."""

    LINK = "link"
    SYMBOLS = "symbols"
    STORM = "storm"
    RECEIVER = "receiver"
    CONGESTION = "congestion"
    LOSS = "loss"
    PRIORITY = "priority"
    IMBALANCE = "imbalance"
    VICTIM = "victim"
    UNKNOWN = "unknown"


TITLES = {
    VerdictKind.LINK: "link",
    VerdictKind.SYMBOLS: "symbol errors",
    VerdictKind.STORM: "storm of pause",
    VerdictKind.RECEIVER: "slow receiver",
    VerdictKind.CONGESTION: "congestion",
    VerdictKind.LOSS: "loss",
    VerdictKind.PRIORITY: "wrong priority",
    VerdictKind.IMBALANCE: "imbalance",
    VerdictKind.VICTIM: "victim of pause",
    VerdictKind.UNKNOWN: "unknown",
}


_MOST_LINES = 8  # of one kind; a leaf that is off has dozens


def verdict_lines(verdicts: Sequence[Verdict], rest: str) -> Iterator[tuple[Verdict, str]]:
    """Yield verdicts with their lines; of many of one kind the first ones, then who the others are.

    Args:
        verdicts: in their order.
        rest: where all of them are.

    """
    counts = Counter(each.kind for each in verdicts)
    shown: Counter[VerdictKind] = Counter()
    for each in verdicts:
        shown[each.kind] += 1
        if shown[each.kind] <= _MOST_LINES or counts[each.kind] == _MOST_LINES + 1:
            yield each, each.text
        elif shown[each.kind] == counts[each.kind]:
            others = [one for one in verdicts if one.kind is each.kind][_MOST_LINES:]
            names = fold_names({name for one in others for name in one.nodes})
            yield each, f"{names}: {TITLES[each.kind]}: {len(others)} more, in {rest}"


@dataclass(frozen=True)
class Verdict:
    """One conclusion.

    Args:
        kind: what it is about.
        what: what was counted, what is expected, and where it was read.
        remedy: what to do next.
        nodes: whom it names; empty if it is the whole fleet.
        rail: the rail's number, None if it names none.
        leaf: the leaf, empty if it is not known or not one.
        unreachable: whether a node did not answer at all.

    """

    kind: VerdictKind
    what: str
    remedy: str
    nodes: tuple[str, ...] = ()
    rail: int | None = None
    leaf: str = ""
    unreachable: bool = False

    @property
    def proven(self) -> bool:
        """Return whether something is known to be wrong."""
        return self.kind is not VerdictKind.UNKNOWN

    @property
    def where(self) -> str:
        """Return what it names."""
        parts = [self.nodes[0] if len(self.nodes) == 1 else "" if not self.nodes else self._named()]
        if self.rail is not None:
            parts.append(f"rail {self.rail}")
        if self.leaf:
            parts.append(f"(leaf {self.leaf})" if any(parts) else f"leaf {self.leaf}")
        return " ".join(part for part in parts if part) or "fleet"

    def _named(self) -> str:
        return f"{quantity(len(self.nodes), 'node')} ({fold_names(self.nodes)})"

    @property
    def title(self) -> str:
        """Return what it is about."""
        return "unreachable" if self.unreachable else TITLES[self.kind]

    @property
    def key(self) -> tuple[object, ...]:
        """Return what makes it the same verdict at another time."""
        why = "" if self.proven else self.remedy
        return self.kind, self.nodes, self.rail, self.leaf, why

    @property
    def text(self) -> str:
        """Return it as one line."""
        return printable(f"{self.where}: {self.title}: {self.what}. {self.remedy}")

    def as_data(self) -> dict[str, object]:
        """Return it as JSON has it."""
        return {
            "kind": self.kind.value,
            "nodes": list(self.nodes),
            "rail": self.rail,
            "leaf": self.leaf,
            "what": self.what,
            "remedy": self.remedy,
            "proven": self.proven,
        }
