"""The collectives under test: their buffers, what is given, what must come of it."""

from __future__ import annotations

from typing import Any

from .values import Values, Wrong


class AllReduce:
    """A sum of all ranks, on all ranks."""

    places: tuple[bool, ...] = (True, False)  # in place, and not
    hops = 2  # how often a ring sends the message, less the own share

    def __init__(self, group: Any, values: Values, count: int, dtype: Any) -> None:
        self.group, self.values = group, values
        self.ranks = values.ranks
        self._count, self._block = max(1, count), max(1, count // self.ranks)
        self._allocate(group.torch, {"dtype": dtype, "device": group.device})

    @property
    def due_bytes(self) -> int:
        """Return what a ring has each rank send: nccl-tests, doc/PERFORMANCE.md."""
        most = max(self.given.numel(), self.out.numel()) * self.given.element_size()
        return int(self.hops * (self.ranks - 1) * most // self.ranks)

    def _allocate(self, torch: Any, kind: dict[str, Any]) -> None:
        self.given, self.out = torch.empty(self._count, **kind), torch.empty(self._count, **kind)

    def fill(self, salt: int) -> None:
        """Write what this rank gives."""
        self.values.fill_summands(self.given, salt)

    def prepare(self, in_place: bool) -> None:
        """Bring the result's buffer to where a run begins; not timed."""
        if in_place:
            self.out.copy_(self.given)
        else:
            self.out.zero_()

    def run(self, in_place: bool) -> None:
        """Run once.

        torch has an all-reduce in place only, so the other one is a copy and an all-reduce, as its
        functional collectives are.
        """
        if not in_place:
            self.out.copy_(self.given)
        self.group.dist.all_reduce(self.out, group=self.group.handle)

    def wrong(self, salt: int) -> Wrong:
        """Return which results are wrong."""
        return self.values.wrong_totals(self.out, 0, salt)

    def wrong_given(self, salt: int) -> Wrong:
        """Return what is no more as this rank gave it."""
        return self.values.wrong_summands(self.given, salt)


class ReduceScatter(AllReduce):
    """A sum of all ranks, of which each has a part."""

    places = (False,)
    hops = 1

    def _allocate(self, torch: Any, kind: dict[str, Any]) -> None:
        self.given = torch.empty(self._block * self.ranks, **kind)
        self.out = torch.empty(self._block, **kind)

    def run(self, in_place: bool) -> None:
        """Run once."""
        del in_place
        self.group.dist.reduce_scatter_tensor(self.out, self.given, group=self.group.handle)

    def wrong(self, salt: int) -> Wrong:
        """Return which results are wrong."""
        return self.values.wrong_totals(self.out, self.values.rank * self._block, salt)


class AllGather(AllReduce):
    """What each rank has, on all ranks."""

    places = (False,)
    hops = 1

    def _allocate(self, torch: Any, kind: dict[str, Any]) -> None:
        self.given = torch.empty(self._block, **kind)
        self.out = torch.empty(self._block * self.ranks, **kind)

    def fill(self, salt: int) -> None:
        """Write what this rank gives."""
        del salt
        self.values.fill_own(self.given)

    def run(self, in_place: bool) -> None:
        """Run once."""
        del in_place
        self.group.dist.all_gather_into_tensor(self.out, self.given, group=self.group.handle)

    def wrong(self, salt: int) -> Wrong:
        """Return which results are wrong."""
        del salt
        return self.values.wrong_moved(self.out.view(self.ranks, -1), 0, 0)

    def wrong_given(self, salt: int) -> Wrong:
        """Return what is no more as this rank gave it."""
        del salt
        return self.values.wrong_moved(self.given.view(1, -1), self.values.rank, 0)


class AllToAll(AllGather):
    """A part of what each rank has, for each other rank."""

    def _allocate(self, torch: Any, kind: dict[str, Any]) -> None:
        self.given = torch.empty(self._block * self.ranks, **kind)
        self.out = torch.empty_like(self.given)

    def run(self, in_place: bool) -> None:
        """Run once."""
        del in_place
        self.group.dist.all_to_all_single(self.out, self.given, group=self.group.handle)

    def wrong(self, salt: int) -> Wrong:
        """Return which results are wrong."""
        del salt
        start = self.values.rank * self._block
        return self.values.wrong_moved(self.out.view(self.ranks, -1), 0, start)


COLLECTIVES = {
    "all_reduce": AllReduce,
    "reduce_scatter": ReduceScatter,
    "all_gather": AllGather,
    "all_to_all": AllToAll,
}
