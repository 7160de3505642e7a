"""What the steps of `rdmaprov replace` share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rdmaprov.cli import session
from rdmaprov.errors import UsageError
from rdmaprov.replace.journal import Journal
from rdmaprov.replace.witnesses import choose_witnesses, known_good
from rdmaprov.scheduler.model import Scheduler
from rdmaprov.scheduler.no_scheduler import NoScheduler
from rdmaprov.terminal import Line


@dataclass(frozen=True)
class Asked:
    """What the user asked for.

    Args:
        host_keys: the fingerprints that the user allows, by node.
        witnesses: how many, or which; empty for the default.
        sizes: bytes of the messages to measure with; empty for all that fit.
        wait_s: seconds to wait for another run that holds a node.
    """

    site: Path
    nodes: tuple[str, ...]
    host_keys: Mapping[str, str]
    yes: bool
    witnesses: str
    sizes: tuple[int, ...]
    wait_s: float


@dataclass
class Work:
    """A replacement that runs.

    Attributes:
        ready: the whole site; it is read again once host variables were written.
        witness_scheduler: who knows which nodes may be witnesses, and keeps jobs off them.
        machines: by node, what tells its machine from another one.
        facts: by node, what the machine is made of.
    """

    asked: Asked
    ready: session.Prepared
    scheduler: Scheduler
    witness_scheduler: Scheduler
    journal: Journal
    machines: dict[str, str] = field(default_factory=dict)
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def replaced(self) -> session.Prepared:
        """Return the site with the replaced nodes alone."""
        return self.only(self.asked.nodes)

    def only(self, names: Sequence[str]) -> session.Prepared:
        """Return the site with some nodes alone."""
        return self.ready.only(names)

    def tell(self, text: str) -> None:
        """Show what happens."""
        self.ready.screen.remark(Line(text))

    def require_witnesses(self) -> None:
        """Raise if the user named a witness that cannot be one.

        Raises:
            UsageError: the name is none of the site's other nodes.
        """
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
        return choose_witnesses(self.only(names).fleet.nodes, status, len(named) or count)


def parse_witnesses(text: str) -> tuple[tuple[str, ...], int | None]:
    """Return the names of a list of witnesses, or how many; None for the default.

    Raises:
        UsageError: the number is less than one.
    """
    if not text:
        return (), None
    if text.lstrip("-").isdigit():
        if int(text) < 1:
            raise UsageError(f"--witnesses must be at least 1, not {text}", "Leave it out")
        return (), int(text)
    return tuple(dict.fromkeys(name for name in text.replace(",", " ").split() if name)), None
