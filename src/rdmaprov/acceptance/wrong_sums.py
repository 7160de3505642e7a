"""Which rank makes sums wrong, from what ranks saw of them and of each other's values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from rdmaprov.acceptance.finding import ISOLATE, Finding
from rdmaprov.acceptance.job_run import JobRun
from rdmaprov.acceptance.rank_events import RankEvent
from rdmaprov.bandwidth.sizes import format_size

_REMEDY = "Drain the node, and test its memory, GPUs and PCIe links"


def findings(ran: JobRun) -> Iterator[Finding]:
    """Yield the ranks that make sums wrong.

    A rank whose own values arrive wrong at others sends them wrong. A rank that alone sees wrong
    sums, or to which all others' values come wrong, receives or adds wrong. If all see wrong sums
    and every rank's values arrive right, the rank that adds wrong is unknown.
    """
    for plane in ran.job.planes:
        wrong = [event for event in ran.events_of("wrong") if event["plane"] == plane.name]
        if wrong:
            sources = [event for event in ran.events_of("source") if event["plane"] == plane.name]
            yield from _judge_plane(ran, plane.rail, wrong, sources)


def _judge_plane(
    ran: JobRun, rail: int | None, wrong: list[RankEvent], sources: list[RankEvent]
) -> Iterator[Finding]:
    seen = {event["rank"] for event in wrong}
    wrong_at: dict[int, set[int]] = defaultdict(set)  # source → ranks at which it arrives wrong
    for event in sources:
        wrong_at[event["source"]].add(event["rank"])
    others = ran.job.world - 1
    senders = {source for source, ranks in wrong_at.items() if len(ranks - {source}) == others}
    if ran.job.world == 2 and len(senders) == 2:
        senders = set()  # both directions are wrong, so either rank may be at fault
    receivers = seen - senders if len(seen) < ran.job.world else set()
    for rank in sorted(senders):
        what = f"data from rank {rank} arrives wrong at {others} others: {_first_wrong(wrong)}"
        yield Finding(what, _REMEDY, ran.job.node_of(rank), rail, level="rank")
    if senders:
        return
    for rank in sorted(receivers):
        own = next(event for event in wrong if event["rank"] == rank)
        what = f"rank {rank} gets wrong sums, {ran.job.world - len(seen)} others get right ones"
        yield Finding(
            f"{what}: {_format_wrong(own)}", _REMEDY, ran.job.node_of(rank), rail, level="rank"
        )
    if not receivers:
        what = f"all {ran.job.world} ranks get wrong sums: {_first_wrong(wrong)}"
        yield Finding(what, ISOLATE, rail=rail)


def _first_wrong(wrong: list[RankEvent]) -> str:
    return _format_wrong(wrong[0])


def _format_wrong(event: RankEvent) -> str:
    count, index, got, wanted = event["first"]
    size = format_size(event["bytes"])
    return (
        f"{count} of {event['of']} values ({event['dtype']}, {size}), "
        f"element {index} is {got:g}, expected {wanted:g}"
    )
