"""Who is to blame when a run did not come to its end, from what its ranks and supervisors said."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from rdmaprov.acceptance.finding import Finding
from rdmaprov.acceptance.launch import JobRun, NodeRun, RankEvent

# What a rank says when another one is gone or does not answer; gloo's and c10d's words.
_OTHERS_FAULT = re.compile(
    r"connection (?:closed|reset|refused|was likely closed)|broken pipe|socket closed|"
    r"timed out|wait timeout|failed to pass monitoredBarrier|recvValue failed|"
    r"remote process exited|no route to host",
    re.IGNORECASE,
)
_WAITS = "/torch/distributed/"
_STATES = {"T": "stopped", "t": "stopped by a debugger", "D": "stuck in the kernel", "Z": "dead"}
_BY_HAND = "Look at the node's kernel log, and at err in its logs"


def findings(ran: JobRun) -> list[Finding]:
    """Return who is to blame; none for a run that came to its end.

    The sharpest evidence decides: nodes that are gone, then processes that died, then errors of a
    rank's own, then who did not come, and at last who kept the others waiting.
    """
    if ran.good:
        return []
    for look in (
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


def _lost_nodes(ran: JobRun) -> Iterator[Finding]:
    for name, node in ran.nodes.items():
        if node.lost:
            at = _last_phase(ran, name)
            # It was there at the preflight: that it is gone is not merely unknown.
            what = f"stopped answering in {at!r}: {node.why.removeprefix(f'{name}: ')}"
            yield Finding(what, "Is it up? Look at its console", name)


def _dead_nodes(ran: JobRun) -> Iterator[Finding]:
    """Yield nodes whose ranks ended without a word: killed, or never started."""
    spoke = {ran.job.node_of(event["rank"]) for event in _last_words(ran)}
    for name, node in ran.nodes.items():
        if node.rc in (None, 0) or name in spoke:
            continue
        if node.rc == 124:
            what = f"{node.why} in {_last_phase(ran, name)!r}"
            yield Finding(what, "Give more with --timeout, or look at the node", name, None, False)
        else:
            yield Finding(f"{_exit_text(node)} in {_last_phase(ran, name)!r}", _BY_HAND, name)


def _exit_text(node: NodeRun) -> str:
    """Return how a node's program ended."""
    signal = re.findall(r"exitcode\s*:\s*-(\d+)", node.errors)
    if signal:
        return f"a rank was killed by signal {signal[-1]}"
    said = [line.strip() for line in node.errors.splitlines() if line.strip()]
    errors = [line for line in said if re.search(r"(?:Error|Exception)\b|[Nn]o module", line)]
    why = node.why or (errors or said or ["it does not say why"])[-1]
    return f"torchrun ended with {node.rc}: {why[:300]}"


def _own_errors(ran: JobRun) -> Iterator[Finding]:
    for event in ran.of("failed"):
        if not _OTHERS_FAULT.search(event["error"]):
            error = event["error"].splitlines()[0][:300]
            what = f"rank {event['rank']} failed in {event['phase']!r}: {error}"
            yield Finding(what, _BY_HAND, ran.job.node_of(event["rank"]))


def _absent_ranks(ran: JobRun) -> Iterator[Finding]:
    """Yield the ranks that a monitored barrier waited for."""
    for event in ran.of("missing"):
        for rank in missing_ranks(event["error"]):
            what = f"rank {rank} did not come to the rendezvous"
            yield Finding(what, _BY_HAND, ran.job.node_of(rank))


def missing_ranks(error: str) -> list[int]:
    """Return the ranks that torch's monitored barrier names in its error."""
    found = re.search(r"Ranks?\s+([\d,\s]+?)\s+failed to pass monitoredBarrier", error)
    return [int(word) for word in found[1].replace(",", " ").split()] if found else []


def _stuck_ranks(ran: JobRun) -> Iterator[Finding]:
    """Yield the ranks for which the others wait, by the first of some signs that tells some apart.

    A rank that waits in torch.distributed is a victim; one that is elsewhere, or that entered fewer
    collectives, or whose process does not run, is what the others wait for.
    """
    late = {event["rank"]: event for event in ran.of("late")}
    if not late:
        return
    words = {event["rank"] for event in _last_words(ran)}
    places = {rank: at for node in ran.nodes.values() for rank, at in node.ranks.items()}
    most = max([at["entered"] for at in places.values()], default=0)
    signs: tuple[Callable[[int], str], ...] = (
        lambda rank: _process_sign(str(places.get(rank, {}).get("process", ""))),
        lambda rank: "" if rank in words else "it said nothing when its time was up",
        lambda rank: _behind_sign(int(places.get(rank, {}).get("entered", most)), most),
        lambda rank: _elsewhere_sign(late.get(rank)),
    )
    ranks = range(ran.job.world)
    for sign in signs:
        told = {rank: sign(rank) for rank in ranks if sign(rank)}
        if 0 < len(told) < len(ranks):
            for rank, why in told.items():
                name = ran.job.node_of(rank)
                at = late.get(rank) or next(iter(late.values()))
                what = f"rank {rank} keeps the others waiting in {at['phase']!r}: {why}"
                yield Finding(what, _BY_HAND, name)
            return


def _process_sign(state: str) -> str:
    return f"its process is {_STATES[state]} (/proc/PID/stat: {state})" if state in _STATES else ""


def _behind_sign(entered: int, most: int) -> str:
    return f"it began {entered} collectives, others {most}" if entered < most else ""


def _elsewhere_sign(event: RankEvent | None) -> str:
    where = str(event["where"]) if event else ""
    return f"it was at {where}" if where and _WAITS not in where else ""


def _accused_nodes(ran: JobRun) -> Iterator[Finding]:
    """Yield the nodes whose connections broke, by the addresses in the errors of the others."""
    owners = {
        address: (node, plane.rail)
        for plane in ran.job.planes
        for node, address in plane.addresses.items()
    }
    named: dict[tuple[str, int | None], str] = {}
    for event in ran.of("failed"):
        for address in re.findall(r"\[?(?:::ffff:)?([0-9a-fA-F.:]+?)\]?:\d+\b", event["error"]):
            if address in owners:
                error = event["error"].splitlines()[0][:200]
                named.setdefault(owners[address], f"rank {event['rank']} says: {error}")
    for (node, rail), what in named.items():
        yield Finding(what, _BY_HAND, node, rail)


def _unknown_cause(ran: JobRun) -> Finding:
    last = _last_words(ran)
    phase = last[0]["phase"] if last else _last_phase(ran, ran.job.nodes[0])
    error = str(last[0].get("error", "all ranks wait for each other")) if last else "no rank spoke"
    what = f"the run ended in {phase!r}: {error.splitlines()[0][:300]}"
    return Finding(what, "Let it be isolated: --isolate auto", proven=False)


def _last_words(ran: JobRun) -> list[RankEvent]:
    return [*ran.of("failed"), *ran.of("late")]


def _last_phase(ran: JobRun, name: str) -> str:
    """Return the last phase that a node is known to have begun."""
    phases = [e["phase"] for e in ran.of("phase") if ran.job.node_of(e["rank"]) == name]
    return phases[-1] if phases else "start"
