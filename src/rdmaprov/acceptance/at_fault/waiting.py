"""For whom the others wait: ranks that did not join, ranks that hold up a collective.

Of a job that hangs, NCCL's RAS names the ranks that do not answer it, and those that lag.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from rdmaprov.acceptance.agent.progress import WAITS
from rdmaprov.acceptance.ranks.events import RankEvent
from rdmaprov.acceptance.ranks.rail_map import RailMap
from rdmaprov.acceptance.ranks.run import JobRun
from rdmaprov.acceptance.ranks.statements import Statements
from rdmaprov.finding.finding import Finding
from rdmaprov.nccl_log.ras import RasProcess, RasReport, parse_report

_IMPORTS = "import torch"  # the phase, as agent/main.py has it
_IMPORT_REMEDY = "On {node}, see what else runs (top), and how fast the disk is that has torch"
_STATES = {"T": "stopped", "t": "stopped by a debugger", "D": "stuck in the kernel", "Z": "dead"}


def read_errors_remedy(node: str) -> str:
    """Return where a node's own errors are."""
    return f"On {node}, read dmesg -T; on the controller, logs/{node}.err of this run"


def absent_ranks(ran: JobRun, said: Statements) -> Iterator[Finding]:
    """Yield the ranks that a monitored barrier waited for.

    One that still imports torch is on a node that is slow or busy: that proves no fault.
    """
    absent = {rank for event in said.of("missing") for rank in missing_ranks(event["error"])}
    for rank in sorted(absent):
        if rank < ran.job.world:
            name = ran.job.node_of(rank)
            imports = ran.nodes[name].ranks.get(rank, {}).get("phase") == _IMPORTS
            why = ": it was still importing torch" if imports else ""
            what = f"rank {rank} did not join the rendezvous{why}"
            remedy = _IMPORT_REMEDY.format(node=name) if imports else read_errors_remedy(name)
            yield Finding(
                "rank.absent",
                what,
                remedy,
                name,
                proven=not imports,
                level="rank",
                part=f"rank {rank}",
            )


def missing_ranks(error: str) -> list[int]:
    """Return the ranks that torch's monitored barrier names in its error."""
    found = re.search(r"Ranks?\s+([\d,\s]+?)\s+failed to pass monitoredBarrier", error)
    return [int(word) for word in found[1].replace(",", " ").split()] if found else []


def stuck_ranks(ran: JobRun, said: Statements) -> Iterator[Finding]:
    """Yield the ranks for which the others wait, by the first sign that only some ranks show.

    A rank that waits in torch is a victim; one that is elsewhere, or that entered fewer collectives
    than others of its group, or whose process does not run, is what the others wait for.
    """
    late = {event["rank"]: event for event in said.of("late")}
    for group in _waiting_groups(ran, said, late) if late else ():
        own = {rank: late[rank] for rank in group if rank in late}
        if len(group) > 1:
            yield from _stuck_in(ran, said, own, group)
        elif 2 * len(late) <= ran.job.world:  # what most do is nobody's own fault
            yield from (_late_alone(ran, event) for event in own.values())


def _late_alone(ran: JobRun, event: RankEvent) -> Finding:
    """Return that a rank did not end what it does without any other."""
    name = ran.job.node_of(event["rank"])
    what = (
        f"rank {event['rank']} did not end {event['phase']!r} in {event['limit_s']:g} s, in which "
        f"it waits for no other rank: it was in {event['where']}"
    )
    part = f"rank {event['rank']}"
    return Finding("rank.hangs", what, read_errors_remedy(name), name, level="rank", part=part)


def _waiting_groups(ran: JobRun, said: Statements, late: Collection[int]) -> list[Collection[int]]:
    """Return the groups in which ranks wait: groups side by side do not wait for each other."""
    done = {event["rank"]: event["task"] for event in said.of("finished")}
    found: list[Collection[int]] = []
    seen: set[int] = set()
    for number in sorted(ran.tasks):
        for group in ran.tasks[number].groups:
            now = {rank for rank in group if rank in late and done.get(rank, -1) < number} - seen
            if now:
                seen |= now
                found.append(group)
    # Ranks that are in no task wait for all: they meet, or make their groups.
    return found if seen >= set(late) else [range(ran.job.world)]


def _stuck_in(
    ran: JobRun, said: Statements, late: Mapping[int, RankEvent], group: Collection[int]
) -> Iterator[Finding]:
    """Yield the ranks of a group for which its others wait."""
    words = {rank for ranks in said.spoke.values() for rank in ranks}
    names = {ran.job.node_of(rank) for rank in group}
    places = {rank: at for name in names for rank, at in ran.nodes[name].ranks.items()}
    everyone = set(group)
    places = {rank: at for rank, at in places.items() if rank in everyone}
    entered, most = _counts(places)
    signs: tuple[Callable[[int], str], ...] = (
        lambda rank: _process_sign(str(places.get(rank, {}).get("process", ""))),
        lambda rank: "" if rank in words else "it reported nothing at its time limit",
        lambda rank: _behind_sign(entered.get(rank, most), most),
        lambda rank: elsewhere_sign(late.get(rank)),
    )
    first = next(iter(late.values()))
    for sign in signs:
        shown_by = {rank: why for rank in group if (why := sign(rank))}
        # What most show is what victims show.
        if 0 < len(shown_by) <= len(group) / 2:
            for rank, why in shown_by.items():
                name = ran.job.node_of(rank)
                phase = late.get(rank, first)["phase"]
                what = f"rank {rank} keeps the others waiting during {phase!r}: {why}"
                remedy = read_errors_remedy(name)
                part = f"rank {rank}"
                yield Finding("rank.hangs", what, remedy, name, level="rank", part=part)
            return


def _counts(places: Mapping[int, Mapping[str, Any]]) -> tuple[dict[int, int], int]:
    """Return how many collectives ranks began on the communicator that most are at, and the most.

    On others, they began as many as those had time for.
    """
    on = Counter(at["communicator"] for at in places.values()).most_common(1)
    entered = {
        rank: int(at["entered"]) for rank, at in places.items() if at["communicator"] == on[0][0]
    }
    return entered, max(entered.values(), default=0)


def _process_sign(state: str) -> str:
    return f"its process is {_STATES[state]} (/proc/PID/stat: {state})" if state in _STATES else ""


def _behind_sign(entered: int, most: int) -> str:
    return f"it started {entered} collectives, the others {most}" if entered < most else ""


def elsewhere_sign(event: RankEvent | None) -> str:
    """Return where a late rank was, if it did not wait for others there; else nothing."""
    where = str(event["where"]) if event else ""
    return (
        f"it was in {where}, not in torch.distributed"
        if where and not any(place in where for place in WAITS)
        else ""
    )


def ras_findings(ran: JobRun, said: Statements, places: RailMap) -> list[Finding]:
    """Return the ranks that RAS names in a job that hangs; nothing if it names most of them.

    RAS shows one moment: ranks that are behind are normal while a job runs. So it is heard only of
    jobs in which ranks reached their time limit.
    """
    if not said.of("late") or ran.job.backend != "nccl":
        return []
    ranks = {(ran.job.node_of(e["rank"]), e["pid"]): e["rank"] for e in said.of("hello")}
    spoke = {rank for own in said.spoke.values() for rank in own}
    reports = [parse_report(event["report"]) for event in said.of("ras")]
    for named, alive in ((_silent(reports), spoke), (_behind(reports), set[int]())):
        why_of: dict[int, str] = {}
        for process, why in named:
            place = places.place_of(process.node)
            rank = _rank_of(ran, ranks, place[0], process) if place else None
            # A rank that spoke was alive, and has ended since.
            if rank is not None and rank not in alive:
                why_of.setdefault(rank, why)
        # What most show is what victims show.
        if 0 < len(why_of) <= ran.job.world / 2:
            return [_finding(ran, rank, why) for rank, why in sorted(why_of.items())]
    return []


def _rank_of(
    ran: JobRun, ranks: dict[tuple[str, int], int], node: str, process: RasProcess
) -> int | None:
    """Return the rank of a process; where ids differ, as in a container, that of its GPU."""
    if (node, process.pid) in ranks:
        return ranks[node, process.pid]
    if node not in ran.nodes or process.gpu >= ran.job.per_node:
        return None
    return ran.job.ranks_of(node)[process.gpu]


def _silent(reports: list[RasReport]) -> Iterator[tuple[RasProcess, str]]:
    for report in reports:
        for process in report.unresponsive:
            yield process, "it does not answer NCCL's RAS"


def _behind(reports: list[RasReport]) -> Iterator[tuple[RasProcess, str]]:
    for report in reports:
        for each in report.lagging:
            why = f"it launched {each.launched} operations, others {each.most} (NCCL's RAS)"
            yield each.process, why


def _finding(ran: JobRun, rank: int, why: str) -> Finding:
    name = ran.job.node_of(rank)
    what = f"rank {rank} keeps the others waiting: {why}"
    return Finding(
        "rank.hangs", what, read_errors_remedy(name), name, level="rank", part=f"rank {rank}"
    )
