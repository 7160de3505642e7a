"""What is at fault when a run failed, from the reports of its ranks and supervisors."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from rdmaprov.acceptance.finding import ISOLATE, Finding, first_line
from rdmaprov.acceptance.job_run import JobRun, NodeRun
from rdmaprov.acceptance.rank_events import RankEvent

# What a rank reports when another one is gone or does not answer; gloo's and c10d's words.
_OTHERS_FAULT = re.compile(
    r"connection (?:closed|reset|refused|was likely closed)|broken pipe|socket closed|"
    r"timed out|wait timeout|failed to pass monitoredBarrier|recvValue failed|"
    r"remote process exited|no route to host",
    re.IGNORECASE,
)
_WAITS = "/torch/distributed/"
_STATES = {"T": "stopped", "t": "stopped by a debugger", "D": "stuck in the kernel", "Z": "dead"}


def findings(ran: JobRun) -> list[Finding]:
    """Return what is at fault; nothing for a run that succeeded.

    The sharpest evidence decides: nodes that are gone, then processes that died, then errors of a
    rank's own, then ranks that did not join, and at last ranks that hold up the others.
    """
    if ran.good:
        return []
    for look in (
        _odd_nodes,
        _lost_nodes,
        _dead_nodes,
        _own_errors,
        _absent_ranks,
        _stuck_ranks,
        _accused_nodes,
    ):
        if found := list(look(ran)):
            return found
    return [_unknown_cause(ran)]


def _odd_nodes(ran: JobRun) -> Iterator[Finding]:
    """Yield the nodes that answer what rdmaprov's own programs do not; nothing else is certain."""
    for name, node in ran.nodes.items():
        if node.odd:
            remedy = f"Drain {name}, and find out what answers there in place of the run's ranks"
            yield Finding(node.odd, remedy, name, proven=False)


def _lost_nodes(ran: JobRun) -> Iterator[Finding]:
    for name, node in ran.nodes.items():
        if node.lost:
            at = _last_phase(ran, name)
            # It answered the preflight, so this is proven, and not merely unknown.
            what = f"stopped answering during {at!r}: {node.why.removeprefix(f'{name}: ')}"
            yield Finding(what, "Check on its console (BMC) whether it is up", name)


def _dead_nodes(ran: JobRun) -> Iterator[Finding]:
    """Yield nodes whose ranks ended without a report: killed, or never started."""
    spoke = {ran.job.node_of(event["rank"]) for event in _last_words(ran)}
    for name, node in ran.nodes.items():
        if node.rc in (None, 0) or name in spoke:
            continue
        if node.rc == 124:
            what = f"{node.why} during {_last_phase(ran, name)!r}"
            remedy = "Run rdmaprov accept again with a longer --timeout"
            yield Finding(what, remedy, name, None, False)
        else:
            what = f"{_exit_text(node)} during {_last_phase(ran, name)!r}"
            yield Finding(what, _remedy(name), name)


def _remedy(node: str) -> str:
    """Return where a node's own errors are."""
    return f"On {node}, read dmesg -T; on the controller, logs/{node}.err of this run"


def _exit_text(node: NodeRun) -> str:
    """Return how a node's program ended."""
    signal = re.findall(r"exitcode\s*:\s*-(\d+)", node.errors)
    if signal:
        return f"a rank was killed by signal {signal[-1]}"
    said = [line.strip() for line in node.errors.splitlines() if line.strip()]
    errors = [line for line in said if re.search(r"(?:Error|Exception)\b|[Nn]o module", line)]
    why = node.why or (errors or said or ["no error message"])[-1]
    return f"torchrun exited with status {node.rc}: {why[:300]}"


def _own_errors(ran: JobRun) -> Iterator[Finding]:
    for event in ran.events_of("failed"):
        if not _OTHERS_FAULT.search(event["error"]):
            error = first_line(event["error"])
            what = f"rank {event['rank']} failed during {event['phase']!r}: {error}"
            name = ran.job.node_of(event["rank"])
            yield Finding(what, _remedy(name), name, level="rank")


def _absent_ranks(ran: JobRun) -> Iterator[Finding]:
    """Yield the ranks that a monitored barrier waited for."""
    for event in ran.events_of("missing"):
        for rank in missing_ranks(event["error"]):
            if rank < ran.job.world:
                name = ran.job.node_of(rank)
                what = f"rank {rank} did not join the rendezvous"
                yield Finding(what, _remedy(name), name, level="rank")


def missing_ranks(error: str) -> list[int]:
    """Return the ranks that torch's monitored barrier names in its error."""
    found = re.search(r"Ranks?\s+([\d,\s]+?)\s+failed to pass monitoredBarrier", error)
    return [int(word) for word in found[1].replace(",", " ").split()] if found else []


def _stuck_ranks(ran: JobRun) -> Iterator[Finding]:
    """Yield the ranks for which the others wait, by the first sign that only some ranks show.

    A rank that waits in torch.distributed is a victim; one that is elsewhere, or that entered fewer
    collectives, or whose process does not run, is what the others wait for.
    """
    late = {event["rank"]: event for event in ran.events_of("late")}
    if not late:
        return
    words = {event["rank"] for event in _last_words(ran)}
    places = {rank: at for node in ran.nodes.values() for rank, at in node.ranks.items()}
    most = max([at["entered"] for at in places.values()], default=0)
    signs: tuple[Callable[[int], str], ...] = (
        lambda rank: _process_sign(str(places.get(rank, {}).get("process", ""))),
        lambda rank: "" if rank in words else "it reported nothing at its time limit",
        lambda rank: _behind_sign(int(places.get(rank, {}).get("entered", most)), most),
        lambda rank: _elsewhere_sign(late.get(rank)),
    )
    ranks = range(ran.job.world)
    for sign in signs:
        shown_by = {rank: sign(rank) for rank in ranks if sign(rank)}
        if 0 < len(shown_by) < len(ranks):
            for rank, why in shown_by.items():
                name = ran.job.node_of(rank)
                at = late.get(rank) or next(iter(late.values()))
                what = f"rank {rank} keeps the others waiting during {at['phase']!r}: {why}"
                yield Finding(what, _remedy(name), name, level="rank")
            return


def _process_sign(state: str) -> str:
    return f"its process is {_STATES[state]} (/proc/PID/stat: {state})" if state in _STATES else ""


def _behind_sign(entered: int, most: int) -> str:
    return f"it started {entered} collectives, the others {most}" if entered < most else ""


def _elsewhere_sign(event: RankEvent | None) -> str:
    where = str(event["where"]) if event else ""
    return f"it was in {where}, not in torch.distributed" if where and _WAITS not in where else ""


def _accused_nodes(ran: JobRun) -> Iterator[Finding]:
    """Yield the nodes whose connections broke, by the addresses in the errors of the others."""
    owners = {
        address: (node, plane.rail)
        for plane in ran.job.planes
        for node, address in plane.addresses.items()
    }
    named: dict[tuple[str, int | None], str] = {}
    for event in ran.events_of("failed"):
        for address in re.findall(r"\[?(?:::ffff:)?([0-9a-fA-F.:]+?)\]?:\d+\b", event["error"]):
            if address in owners:
                error = first_line(event["error"])
                what = f"rank {event['rank']} lost its connection to this node: {error}"
                named.setdefault(owners[address], what)
    for (node, rail), what in named.items():
        yield Finding(what, _remedy(node), node, rail)


def _unknown_cause(ran: JobRun) -> Finding:
    last = _last_words(ran)
    phase = last[0]["phase"] if last else _last_phase(ran, ran.job.nodes[0])
    error = (
        str(last[0].get("error", "all ranks wait for each other")) if last else "no rank reported"
    )
    what = f"why the run failed during {phase!r}: {first_line(error)}"
    return Finding(what, ISOLATE, proven=False)


def _last_words(ran: JobRun) -> list[RankEvent]:
    return [*ran.events_of("failed"), *ran.events_of("late")]


def _last_phase(ran: JobRun, name: str) -> str:
    """Return the last phase that a node is known to have begun."""
    phases = [e["phase"] for e in ran.events_of("phase") if ran.job.node_of(e["rank"]) == name]
    return phases[-1] if phases else "start"
