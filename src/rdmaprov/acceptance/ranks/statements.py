"""What the ranks of a run said, sorted once: a large fleet says hundreds of thousands of things."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rdmaprov.acceptance.ranks.events import RankEvent
from rdmaprov.acceptance.ranks.run import JobRun

LAST_WORDS = ("failed", "late")


@dataclass(frozen=True)
class Statements:
    """What the ranks of a run said."""

    by_kind: Mapping[str, Sequence[RankEvent]]  # events by their kind, in the order of arrival
    phases: Mapping[str, str]  # the last phase that each node is known to have begun
    spoke: Mapping[str, frozenset[int]]  # by node, the ranks that reported why they end

    def of(self, kind: str) -> Sequence[RankEvent]:
        """Return the events of a kind."""
        return self.by_kind.get(kind, ())

    def phase_of(self, node: str) -> str:
        """Return the last phase that a node is known to have begun."""
        return self.phases.get(node, "start")

    @property
    def last_words(self) -> list[RankEvent]:
        """Return what ranks said at their end: errors first."""
        return [event for kind in LAST_WORDS for event in self.of(kind)]


def sort_statements(ran: JobRun) -> Statements:
    """Return what the ranks of a run said, read once."""
    by_kind: dict[str, list[RankEvent]] = defaultdict(list)
    phases: dict[str, str] = {}
    spoke: dict[str, set[int]] = defaultdict(set)
    for event in ran.events:
        kind = event["event"]
        by_kind[kind].append(event)
        if kind == "phase":
            phases[ran.job.node_of(event["rank"])] = event["phase"]
        elif kind in LAST_WORDS:
            spoke[ran.job.node_of(event["rank"])].add(event["rank"])
    return Statements(by_kind, phases, {node: frozenset(ranks) for node, ranks in spoke.items()})
