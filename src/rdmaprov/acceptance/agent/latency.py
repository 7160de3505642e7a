"""Stragglers of an all-reduce, and the latency between nodes."""

from __future__ import annotations

import statistics
import time
from typing import Any

from .rank import RankProcess
from .watch import say

WAITS = 50  # small all-reduces, to find stragglers
PINGS = 20
BURST_BYTES = 1 << 20
BURSTS = 4
TRIES = 3


def measure_latency(rank: RankProcess, plane: str) -> None:
    """Time small all-reduces, for which the last rank waits least, and one node with another."""
    rank.watch.begin_phase(f"{plane}: latency", rank.plan["limits_s"]["step"])
    small = rank.torch.zeros(2, device=rank.device)
    waits = [round(1e6 * rank.run_collective(small), 1) for _ in range(WAITS)]
    say("waits", plane=plane, us=waits)
    for pairs in rank.plan["rounds"]:
        for pair in pairs:
            if rank.rank in pair:
                _time_pair(rank, plane, pair[0], pair[1])
        if len(pairs) > 1:
            rank.maximum(0)


def _time_pair(rank: RankProcess, plane: str, one: int, other: int) -> None:
    """Time a message there and back, and a burst in each direction; the sender says it."""
    peer = other if rank.rank == one else one
    small = rank.torch.zeros(2, device=rank.device)
    large = rank.torch.zeros(BURST_BYTES // 4, device=rank.device)
    pings = [_exchange(rank, small, 1, one, peer) for _ in range(PINGS)]
    us = round(1e6 * statistics.median(pings) / 2, 1)
    for sender in (one, other):
        # The fastest: whatever else the machine does only slows it down.
        seconds = min(_exchange(rank, large, BURSTS, sender, peer) for _ in range(TRIES))
        if rank.rank == sender:
            rate = BURSTS * BURST_BYTES / seconds / 1e9
            say("pair", plane=plane, to=peer, us=us, gb_s=rate)


def _exchange(rank: RankProcess, data: Any, times: int, sender: int, peer: int) -> float:
    """Return the seconds until the sender has a reply to its messages."""
    rank.watch.begin_step()
    sends = rank.rank == sender
    reply = rank.torch.zeros(2, device=rank.device)
    begin = time.perf_counter()
    for _ in range(times):
        _transfer(rank, data, peer, sends)
    _transfer(rank, reply, peer, not sends)
    return time.perf_counter() - begin


def _transfer(rank: RankProcess, data: Any, peer: int, sends: bool) -> None:
    move = rank.dist.isend if sends else rank.dist.irecv
    operation = rank.dist.P2POp(move, data, peer, rank.group)
    for work in rank.dist.batch_isend_irecv([operation]):
        work.wait()
    if rank.on_gpu:
        rank.torch.cuda.synchronize()
