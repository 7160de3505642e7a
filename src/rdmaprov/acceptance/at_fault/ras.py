"""Which ranks of a hung job NCCL itself names: those that do not answer RAS, and those that lag."""

from __future__ import annotations

from collections.abc import Iterator

from rdmaprov.acceptance.at_fault.waiting import read_errors_remedy
from rdmaprov.acceptance.ranks.rail_map import RailMap
from rdmaprov.acceptance.ranks.run import JobRun
from rdmaprov.acceptance.ranks.statements import Statements
from rdmaprov.finding.finding import Finding
from rdmaprov.nccl_log.ras import RasProcess, RasReport, parse_report


def findings(ran: JobRun, said: Statements, places: RailMap) -> list[Finding]:
    """Return the ranks that RAS names in a job that hangs; nothing if it names most of them.

    RAS shows one moment: ranks that are behind are normal while a job runs. So it is heard only of
    jobs in which ranks reached their time limit.

    Args:
        said: what its ranks said.
        places: whose the addresses are that RAS names nodes by.
    """
    if not said.of("late") or ran.job.backend != "nccl":
        return []
    ranks = _ranks(ran, said)
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


def _ranks(ran: JobRun, said: Statements) -> dict[tuple[str, int], int]:
    """Return the rank of each process, by node and process id, as the ranks said."""
    return {(ran.job.node_of(e["rank"]), e["pid"]): e["rank"] for e in said.of("hello")}


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
