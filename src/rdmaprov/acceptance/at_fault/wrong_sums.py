"""Which rank makes values wrong, from what ranks saw of results and of each other's values."""

from collections import Counter, defaultdict
from collections.abc import Iterator

from rdmaprov.acceptance.ranks.events import RankEvent
from rdmaprov.acceptance.ranks.plan import Task
from rdmaprov.acceptance.ranks.run import JobRun
from rdmaprov.acceptance.remedies import ISOLATE
from rdmaprov.bandwidth.rates import format_size
from rdmaprov.finding.finding import Finding

_REMEDY = "Drain the node, and test its memory, GPUs and PCIe links"
# Pairs in which a rank was wrong, before it is named: with one alone, it could be the other one.
_LEAST_PAIRS = 2
# Nodes that contradict what one says of another, before it is named; our choice.
_LEAST_NODES = 2


def findings(ran: JobRun) -> Iterator[Finding]:
    """Yield the ranks that make values wrong.

    A rank whose own values arrive wrong at others sends them wrong. A rank that alone sees wrong
    results receives or adds wrong. If all see wrong results, pairs of ranks tell: the rank that all
    wrong pairs have in common adds wrong. If no pair is wrong either, the rank is unknown.
    """
    seen = set()
    for task in ran.tasks.values():
        by_group: dict[int, list[RankEvent]] = defaultdict(list)
        for event in ran.events_of("wrong"):
            if event["task"] == task.number:
                by_group[event["group"]].append(event)
        for group, wrong in by_group.items():
            for found in _Blame(ran, task, group, wrong).findings():
                # A bad rank is bad in the tasks that follow, too.
                if (at := (found.node, found.rail, found.part)) not in seen:
                    seen.add(at)
                    yield found
    yield from _contradicted(ran)


def _contradicted(ran: JobRun) -> Iterator[Finding]:
    """Yield nodes that say another's data arrives wrong, where all results are right.

    Ranks look for a sender only after a result was wrong, and the values of one that sends wrong
    are in the sums of all. So either what the node receives or what it says is wrong. Each node is
    named once, and only if two others or more, the accused one left out, contradict it.
    """
    wrong = {(event["task"], event["group"]) for event in ran.events_of("wrong")}
    named: set[str] = set()
    for event in ran.events_of("source"):
        if (event["task"], event["group"]) in wrong:
            continue
        node, source = ran.job.node_of(event["rank"]), event["source"]
        ranks = ran.tasks[event["task"]].groups[event["group"]]
        others = {ran.job.node_of(rank) for rank in ranks} - {node, ran.job.node_of(source)}
        if node not in named and len(others) >= _LEAST_NODES:
            named.add(node)
            what = (
                f"rank {event['rank']} says that data from rank {source} arrives wrong, and all "
                f"results were right, on {len(others)} other nodes too: its report is wrong"
            )
            remedy = f"Drain {node}, test its memory, and find out what answers there"
            yield Finding(
                "rank.untrue", what, remedy, node, level="node", part=f"rank {event['rank']}"
            )


class _Blame:
    """The wrong values of a group in a task."""

    def __init__(self, ran: JobRun, task: Task, group: int, wrong: list[RankEvent]) -> None:
        self._ran, self._wrong = ran, wrong
        self._ranks = task.groups[group]
        self._others = len(self._ranks) - 1
        self._rail = next(p.rail for p in ran.job.planes if p.name == task.plane)
        self._at = (task.number, group)

    def findings(self) -> Iterator[Finding]:
        """Yield what makes values of this group wrong."""
        if senders := self._senders():
            for rank in senders:
                yield self._rank(
                    rank, f"data from rank {rank} arrives wrong at {self._others} others"
                )
            return
        seen = {event["rank"] for event in self._wrong}
        if len(seen) <= self._others:
            for rank in sorted(seen):
                right = len(self._ranks) - len(seen)
                yield self._rank(
                    rank, f"rank {rank} gets wrong results, {right} others get right ones"
                )
        elif suspects := self._suspects():
            for rank, count in suspects.items():
                what = f"results with rank {rank} are wrong in {count} pairs, other pairs are right"
                yield self._rank(rank, what)
        else:
            what = (
                f"all {len(self._ranks)} ranks get wrong results: {_format_wrong(self._wrong[0])}"
            )
            yield Finding("sums.wrong", what, ISOLATE, rail=self._rail)

    def _rank(self, rank: int, what: str) -> Finding:
        """Return the finding of a rank, with what it saw, or else what any rank saw."""
        own = [event for event in self._wrong if event["rank"] == rank] or self._wrong
        node = self._ran.job.node_of(rank)
        said, part = f"{what}: {_format_wrong(own[0])}", f"rank {rank}"
        return Finding("sums.wrong", said, _REMEDY, node, self._rail, level="rank", part=part)

    def _events(self, kind: str) -> Iterator[RankEvent]:
        for event in self._ran.events_of(kind):
            if (event["task"], event["group"]) == self._at:
                yield event

    def _senders(self) -> list[int]:
        """Return the ranks whose values arrive wrong at all others."""
        wrong_at: dict[int, set[int]] = defaultdict(set)
        for event in self._events("source"):
            wrong_at[event["source"]].add(event["rank"])
        found = [s for s, at in wrong_at.items() if len(at - {s}) == self._others]
        # Of two, both directions are wrong, so either rank may be at fault.
        return [] if len(self._ranks) == len(found) == 2 else sorted(found)

    def _suspects(self) -> dict[int, int]:
        """Return the ranks that explain the wrong pairs, fewest first, with the number of theirs.

        The rank with the most wrong pairs explains these; what it does not explain, another one
        must. A rank is named with two pairs or more, and if other pairs were right.
        """
        tried: dict[frozenset[int], bool] = {}
        for event in self._events("witness"):
            pair = frozenset((event["rank"], event["peer"]))
            tried[pair] = tried.get(pair, False) or event["wrong"] > 0
        wrong = {pair for pair, is_wrong in tried.items() if is_wrong}
        found: dict[int, int] = {}
        while wrong and len(wrong) < len(tried):
            ((rank, count),) = Counter(rank for pair in wrong for rank in pair).most_common(1)
            if count < _LEAST_PAIRS:
                break
            found[rank] = count
            wrong = {pair for pair in wrong if rank not in pair}
        return found


def _format_wrong(event: RankEvent) -> str:
    count, index, got, wanted = event["first"]
    if index < 0:
        return f"iteration {event.get('iteration', 0)} of the soak differs from the one before"
    size, iteration = format_size(event["bytes"]), event.get("iteration", 0)
    timed = f" of timed iteration {iteration}" if iteration else ""
    return (
        f"{count} of {event['of']} values{timed} ({event['dtype']}, {size}), "
        f"element {index} is {got:g}, expected {wanted:g}"
    )
