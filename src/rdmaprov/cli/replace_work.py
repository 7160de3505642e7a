"""What the steps of `rdmaprov replace` share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

from rdmaprov.cli import session
from rdmaprov.discover import reach
from rdmaprov.errors import UsageError
from rdmaprov.exit_codes import ExitCode
from rdmaprov.inventory import Node
from rdmaprov.probe.fleet import fleet_targets
from rdmaprov.replace.journal import Journal
from rdmaprov.runs.directory import runs_directory
from rdmaprov.runs.last_word import PASSED, last_words
from rdmaprov.runs.results import results_of
from rdmaprov.scheduler.model import NodeStatus, Scheduler
from rdmaprov.scheduler.no_scheduler import NoScheduler
from rdmaprov.terminal import Line

# The gate names a node that failed with two witnesses which passed elsewhere [docs/isolation.md]:
# two under the node's own leaf, so that it is not its leaf, and two that are not.
NEAR, USUALLY = 2, 4


def known_good(site: Path, nodes: Sequence[str], runs: Path | None = None) -> set[str]:
    """Return the nodes whose last word is a pass and that the last `accept` has nothing against."""
    runs = runs or runs_directory()
    good: set[str] = set()
    left = set(nodes)
    for path in sorted(runs.glob("*-accept*/results.json"), reverse=True):
        if not left:
            break
        results = _accepted(path, site)
        for node in left & results.keys():
            left.discard(node)
            if results[node]:
                good.add(node)
    words = last_words(site, good, runs)
    return {name for name in good if name in words and words[name].state == PASSED}


def _accepted(path: Path, site: Path) -> dict[str, bool]:
    """Return by node whether a run's results have nothing against it; empty if they say nothing."""
    results = results_of(path, site)
    if results is None:
        return {}
    try:
        # Of an unknown verdict nobody knows what it lacked.
        told = results["exit_code"] in (ExitCode.OK, ExitCode.FAILED)
        return {node: told and own["findings"] == 0 for node, own in results["nodes"].items()}
    except (KeyError, TypeError, AttributeError):
        return {}


def choose_witnesses(
    candidates: Sequence[Node],
    status: Mapping[str, NodeStatus],
    count: int | None,
    replaced: Sequence[Node] = (),
) -> list[str]:
    """Return the names of idle nodes: NEAR under each replaced node's leaf, others spread.

    Args:
        candidates: nodes that are known good, in the site's order.
        count: how many; None for USUALLY.
    """
    leaves: dict[str, list[str]] = {}
    for node in candidates:
        if status[node.name].idle:
            leaves.setdefault(node.leaf, []).append(node.name)
    own = [leaf for leaf in dict.fromkeys(node.leaf for node in replaced) if leaf in leaves]
    first = [name for leaf in own for name in leaves[leaf][:NEAR]]
    far = [nodes for leaf, nodes in leaves.items() if leaf not in own]
    near = [leaves[leaf][NEAR:] for leaf in own]
    spread = [it for some in (far, near) for turn in zip_longest(*some) for it in turn if it]
    return [*first, *spread][: USUALLY if count is None else count]


@dataclass(frozen=True)
class Asked:
    """What the user asked for."""

    site: Path
    nodes: tuple[str, ...]
    host_keys: Mapping[str, str]  # the fingerprints that the user allows, by node
    yes: bool
    witnesses: str  # how many, or which; empty for the default
    sizes: tuple[int, ...]  # bytes of the messages to measure with; empty for all that fit
    wait_s: float  # seconds to wait for another run that holds a node


@dataclass
class Work:
    """A replacement that runs."""

    asked: Asked
    ready: session.Prepared  # the whole site; it is read again once host variables were written
    scheduler: Scheduler
    witness_scheduler: Scheduler  # who knows which nodes may be witnesses, and keeps jobs off them
    journal: Journal
    # by node, what tells its machine from another one
    machines: dict[str, str] = field(default_factory=dict)
    # by node, what the machine is made of
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def replaced(self) -> session.Prepared:
        """Return the site with the replaced nodes alone."""
        return self.only(self.asked.nodes)

    def only(self, names: Sequence[str]) -> session.Prepared:
        """Return the site with some nodes alone."""
        return self.ready.only(names)

    def read(self, nodes: Sequence[str]) -> reach.NodeFacts:
        """Read what machines are made of."""
        return reach.read_nodes(fleet_targets(self.only(nodes).fleet, self.ready.given.become))

    def tell(self, text: str) -> None:
        """Show what happens."""
        self.ready.screen.remark(Line(text))

    def require_witnesses(self) -> None:
        """Raise UsageError if a witness that the user named is none of the site's other nodes."""
        for name in parse_witnesses(self.asked.witnesses)[0]:
            if name not in self.ready.nodes or name in self.asked.nodes:
                message = f"--witnesses: {name} is no other node of {self.asked.site}"
                raise UsageError(message, "Name idle nodes of the site that you do not replace")

    def witnesses(self, without: Sequence[str] = ()) -> list[str]:
        """Return idle nodes to measure with; fewer than were asked for if there are no more.

        Raises:
            SchedulerError: nobody knows which nodes are idle.
        """
        named, count = parse_witnesses(self.asked.witnesses)
        others = [name for name in self.ready.nodes if name not in self.asked.nodes]
        names = list(named) or sorted(known_good(self.asked.site, others), key=others.index)
        names = [name for name in names if name not in without]
        status = self.witness_scheduler.status(names)
        if named and isinstance(self.scheduler, NoScheduler):
            return names  # who names nodes knows that they are idle
        replaced = self.replaced.fleet.nodes
        return choose_witnesses(self.only(names).fleet.nodes, status, len(named) or count, replaced)


def parse_witnesses(text: str) -> tuple[tuple[str, ...], int | None]:
    """Return the names of witnesses, or how many, at least one; None for the default."""
    if not text:
        return (), None
    if text.lstrip("-").isdigit():
        if int(text) < 1:
            raise UsageError(f"--witnesses must be at least 1, not {text}", "Leave it out")
        return (), int(text)
    return tuple(dict.fromkeys(name for name in text.replace(",", " ").split() if name)), None
