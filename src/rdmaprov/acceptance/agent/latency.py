"""Stragglers of an all-reduce, and the latency between two ranks."""

from __future__ import annotations

import statistics
import time
from typing import Any

from .group import RankGroup

WAITS = 50  # small all-reduces, to find stragglers
PINGS = 20
BURST_BYTES = 1 << 20
BURSTS = 4
TRIES = 3


def measure_waits(group: RankGroup) -> None:
    """Time small all-reduces, for which the last rank waits least."""
    small = group.torch.zeros(2, device=group.device)
    group.say("waits", us=_reduce_times(group, small, WAITS))


def measure_pair(group: RankGroup) -> None:
    """Time a message there and back, a burst in each direction, and small all-reduces of the two.

    The sender of a burst says it.
    """
    small = group.torch.zeros(2, device=group.device)
    large = group.torch.zeros(BURST_BYTES // 4, device=group.device)
    pings = [_exchange(group, small, 1, 0) for _ in range(PINGS)]
    us = round(1e6 * statistics.median(pings) / 2, 1)
    reduce_us = statistics.median(_reduce_times(group, small, PINGS))
    for sender, peer in ((0, 1), (1, 0)):
        # The fastest: whatever else the machine does only slows it down.
        seconds = min(_exchange(group, large, BURSTS, sender) for _ in range(TRIES))
        if group.rank == sender:
            rate = BURSTS * BURST_BYTES / seconds / 1e9
            group.say("pair", to=group.ranks[peer], us=us, gb_s=rate, reduce_us=reduce_us)


def _reduce_times(group: RankGroup, small: Any, count: int) -> list[float]:
    """Return the microseconds of small all-reduces."""

    def work() -> None:
        group.dist.all_reduce(small, group=group.handle)

    return [round(1e6 * group.time_run(work), 1) for _ in range(count)]


def _exchange(group: RankGroup, data: Any, times: int, sender: int) -> float:
    """Return the seconds until the sender has a reply to its messages."""
    group.watch.begin_step()
    sends = group.rank == sender
    reply = group.torch.zeros(2, device=group.device)
    begin = time.perf_counter()
    for _ in range(times):
        _transfer(group, data, sends)
    _transfer(group, reply, not sends)
    return time.perf_counter() - begin


def _transfer(group: RankGroup, data: Any, sends: bool) -> None:
    move = group.dist.isend if sends else group.dist.irecv
    operation = group.dist.P2POp(move, data, group.ranks[1 - group.rank], group.handle)
    for work in group.dist.batch_isend_irecv([operation]):
        work.wait()
    if group.process.on_gpu:
        group.torch.cuda.synchronize()
