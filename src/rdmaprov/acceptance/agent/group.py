"""Ranks that run collectives together: a communicator, and what its first rank decides."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .progress import say
from .values import Values

if TYPE_CHECKING:
    from .rank import RankProcess

_PAUSE_S = 0.005


class RankCommunicator:
    """What ranks run collectives on.

    Args:
        name: the same on all of its ranks, and of no other communicator.

    Attributes:
        number: stands for the name where there is no room for it.
        entered: how many collectives this rank began on it. Ranks of a communicator begin the same
            ones; those of a process are as many as its groups had time for.
    """

    def __init__(self, handle: Any, name: str) -> None:
        self.handle = handle
        self.number = zlib.crc32(name.encode())
        self.entered = 0


class RankGroup:
    """A group of a task, as one of its ranks sees it.

    What the first rank decides goes through the rendezvous' store, not over the group: it is the
    same for all, whatever the fabric under test does to it.
    """

    def __init__(
        self, process: RankProcess, task: dict[str, Any], index: int, communicator: RankCommunicator
    ) -> None:
        self.process, self.task = process, task
        self.communicator, self.handle = communicator, communicator.handle
        self.torch, self.dist, self.device = process.torch, process.dist, process.device
        self.watch = process.watch
        self.ranks: list[int] = task["groups"][str(index)]
        self.rank = self.ranks.index(process.rank)
        self.index = index
        self.due_bytes = 0
        self._key = f"{task['number']}/{index}"
        self._steps = 0

    @property
    def is_first_of_node(self) -> bool:
        """Return whether this is the first rank of its node in this group."""
        many, own = self.process.per_node, self.process.rank
        return all(rank // many != own // many for rank in self.ranks[: self.rank])

    def part(self, ranks: list[int]) -> RankGroup:
        """Return a group of some of its ranks, with a communicator of its own."""
        task = {**self.task, "groups": {str(self.index): ranks}}
        return self.process.group(task, self.index)

    def say(self, event: str, **fields: Any) -> None:
        """Print an event of this group."""
        say(event, plane=self.task["plane"], task=self.task["number"], group=self.index, **fields)

    def values(self) -> Values:
        """Return what this rank gives."""
        return Values(self.torch, self.rank, len(self.ranks), self.device)

    def time_run(self, work: Callable[[], None], due_bytes: int = 0) -> float:
        """Return the seconds of a collective, done."""
        self.due_bytes += due_bytes

        def run() -> None:
            work()
            if self.process.on_gpu:
                self.torch.cuda.synchronize()

        return self.watch.time_collective(run, self.communicator)

    def agree(self, decide: Callable[[], str]) -> str:
        """Return what the group's first rank decides."""
        self._steps += 1
        key = f"{self._key}/{self._steps}"
        self.watch.begin_step()
        if self.rank == 0:
            decision = decide()
            self.process.store.set(key, decision)
            return decision
        with self.watch.waiting_for(self.ranks[0]):
            return str(self.process.store.get(key).decode())

    def is_any(self, found: bool) -> bool:
        """Return whether anything was found on any rank; all ranks wait for each other."""
        self._steps += 1
        key, count = f"{self._key}/{self._steps}/any", len(self.ranks)
        many = 1 << 32
        self.process.store.add(key, 1 + many * found)

        def decide() -> str:
            with self.watch.waiting_for(-1):
                while (sums := self.process.store.add(key, 0)) % many < count:
                    time.sleep(_PAUSE_S)
            return "yes" if sums >= many else ""

        return bool(self.agree(decide))
