"""What ranks report of wrong values."""

from collections.abc import Iterator
from typing import Any

from tests.madeup.fleet import MadeUpFleet

from rdmaprov.acceptance.agent.pattern import pair_rounds
from rdmaprov.acceptance.ranks.plan import GateJob, Task

_SENDS = ("sends-wrong", "sends-wrong-timed")


def wrong_events(fleet: MadeUpFleet, job: GateJob, task: Task) -> Iterator[dict[str, Any]]:
    """Yield what the ranks of a task say of sums: that they are wrong, and whose values are.

    Wrong values of one rank are in the sums of all of its group. If some are wrong, ranks gather
    everyone's values: those of a rank that sends wrong are wrong at all others.
    """
    for group, ranks in enumerate(task.groups):
        of = {"plane": task.plane, "task": task.number, "group": group}
        kinds = {rank: _what(fleet, job, rank) for rank in ranks}
        senders = [rank for rank, what in kinds.items() if what in _SENDS]
        adders = [rank for rank, what in kinds.items() if what == "adds-wrong"]
        seen = list(ranks) if senders else adders
        yield from _blaming_events(fleet, job, of, ranks)
        if len(ranks) < 2:
            continue
        timed = bool(senders) and kinds[senders[0]] == "sends-wrong-timed"
        for rank in seen:
            yield _wrong(rank, of, task, timed)
        for source in senders:
            # One that goes wrong only under load sends right values when nothing else happens.
            for rank in () if timed else ranks:
                if rank != source:
                    yield _source(rank, of, source)
        if seen:
            yield from _pair_events(ranks, of, set(senders), set(adders))


def _pair_events(
    ranks: tuple[int, ...], of: dict[str, Any], senders: set[int], adders: set[int]
) -> Iterator[dict[str, Any]]:
    """Yield what pairs see that run the collective again, which is a load: agent/senders.py."""
    for pairs in pair_rounds(len(ranks)):
        for one, other in pairs:
            pair = {ranks[one], ranks[other]}
            for rank in sorted(pair):
                (peer,) = pair - {rank}
                wrong = 9 if pair & senders or rank in adders else 0
                yield {"event": "witness", "rank": rank, **of, "peer": peer, "wrong": wrong}


def _what(fleet: MadeUpFleet, job: GateJob, rank: int) -> str:
    fault = fleet.condition.ranks.get((fleet.number_of[job.node_of(rank)], rank % job.per_node))
    return fault.what if fault else ""


def _wrong(rank: int, of: dict[str, Any], task: Task, timed: bool) -> dict[str, Any]:
    size = max(task.sizes, default=8)
    row = {"dtype": task.dtypes[0], "bytes": size, "in_place": True, "first": [3, 1041, 17.0, 12.0]}
    more = {"of": max(1, size // 4), "iteration": 7 if timed else 0}
    return {"event": "wrong", "rank": rank, **of, **row, **more}


def _source(rank: int, of: dict[str, Any], source: int) -> dict[str, Any]:
    return {"event": "source", "rank": rank, **of, "source": source, "first": [1, 1041, 9.0, 4.0]}


def _blaming_events(
    fleet: MadeUpFleet, job: GateJob, of: dict[str, Any], ranks: tuple[int, ...]
) -> Iterator[dict[str, Any]]:
    """Yield what a lying node says of another one: that its values arrive wrong."""
    for rank in ranks:
        if fleet.condition.liars.get(fleet.number_of[job.node_of(rank)]) == "blames":
            others = [r for r in ranks if job.node_of(r) != job.node_of(rank)]
            if others:
                yield _source(rank, of, others[0])
