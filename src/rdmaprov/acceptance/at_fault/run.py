"""What is at fault when a run failed, from the reports of its ranks and supervisors."""

import re
from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Iterator, Sequence

from rdmaprov.acceptance.at_fault import network_errors, waiting
from rdmaprov.acceptance.at_fault.deaths import blames_others, death_of
from rdmaprov.acceptance.at_fault.network_errors import PathError
from rdmaprov.acceptance.at_fault.waiting import read_errors_remedy
from rdmaprov.acceptance.ranks.events import RankEvent
from rdmaprov.acceptance.ranks.nccl_logs import log_files
from rdmaprov.acceptance.ranks.rail_map import Place, RailMap, job_map, plain_address
from rdmaprov.acceptance.ranks.run import JobRun, NodeRun
from rdmaprov.acceptance.ranks.statements import Statements, sort_statements
from rdmaprov.acceptance.remedies import ISOLATE, first_line
from rdmaprov.finding.finding import Finding
from rdmaprov.nccl_log.causes import VICTIMS, KnownCause, find_cause, known_causes, last_error

_TIME_IS_UP = 124  # as timeout(1) has it
# As gloo writes it, and as NCCL does.
_ADDRESS = re.compile(r"\[?((?:::ffff:)?[0-9a-fA-F.:]{2,45}?)(?:\]?:\d{1,5}\b|<\d{1,5}>)")
_MOST_ALONE = 2  # beyond it, connections of one node to others are that node's fault


def findings(ran: JobRun, places: RailMap | None = None) -> list[Finding]:
    """Return what is at fault; nothing for a run that succeeded.

    The sharpest evidence decides. Nodes that are gone, processes that died and errors of a rank's
    own come first, with paths whose failure these do not explain; then ranks that did not join,
    then ranks that hold up the others, and at last the node whose connections broke.

    Args:
        places: where addresses and HCAs are; by default what the job says.
    """
    if ran.good:
        return []
    places = places or job_map(ran.job)
    if odd := list(_odd_nodes(ran)):
        return odd
    said = sort_statements(ran)
    errors = network_errors.path_errors(ran, places)
    saw_errors = {error.local[0] for error in errors}
    certain = [
        *_lost_nodes(ran, said, places),
        *_deaths(ran, said, saw_errors),
        *_own_errors(ran, said),
    ]
    ports = network_errors.port_errors(ran, places) if errors else frozenset()
    if found := certain + _network_errors(errors, certain, places, ports):
        return found
    if found := list(waiting.absent_ranks(ran, said)):
        return found
    # What the kernel says of a process is sharper than what NCCL does not hear from it.
    if found := list(waiting.stuck_ranks(ran, said)) or waiting.ras_findings(ran, said, places):
        return found
    if found := list(_broken_connections(ran, said, places)):
        return found
    return [_time_up(ran, said) or _unknown_cause(ran, said)]


def _odd_nodes(ran: JobRun) -> Iterator[Finding]:
    """Yield the nodes that answer what rdmaprov's own programs do not; nothing else is certain."""
    for name, node in ran.nodes.items():
        if node.odd:
            remedy = f"Drain {name}, and find out what answers there in place of the run's ranks"
            yield Finding("node.odd", node.odd, remedy, name, proven=False)


def _lost_nodes(ran: JobRun, said: Statements, places: RailMap) -> Iterator[Finding]:
    """Yield the nodes that stopped answering; all of a leaf together."""
    lost = {name: node for name, node in ran.nodes.items() if node.lost}
    leaves = {places.leaves.get(name, "") for name in lost} - {""}
    for leaf in sorted(leaves):
        nodes = [name for name in places.nodes_of(leaf) if name in ran.nodes]
        if 1 < len(nodes) < len(ran.nodes) and lost.keys() >= set(nodes):
            what = f"all {len(nodes)} nodes of leaf {leaf} stopped answering: {lost[nodes[0]].why}"
            yield Finding(
                "node.silent",
                what,
                f"Check leaf {leaf}",
                level="leaf",
                nodes=tuple(nodes),
                leaf=leaf,
            )
            for name in nodes:
                del lost[name]
    for name, node in lost.items():
        # It answered the preflight, so this is proven, and not merely unknown.
        why = node.why.removeprefix(f"{name}: ")
        what = f"stopped answering during {said.phase_of(name)!r}: {why}"
        yield Finding("node.silent", what, "Check on its console (BMC) whether it is up", name)


def _deaths(ran: JobRun, said: Statements, saw_errors: Container[str]) -> Iterator[Finding]:
    """Yield nodes whose ranks ended of their own: killed, or never started."""
    for name, node in ran.nodes.items():
        if node.lost or node.rc in (None, 0, _TIME_IS_UP):
            continue
        death = death_of(node, said.spoke.get(name, frozenset()), name in saw_errors)
        if death is not None and not death.is_victim:
            what = f"{death.why} during {said.phase_of(name)!r}"
            level = "node" if death.rank is None else "rank"
            part = "" if death.rank is None else f"rank {death.rank}"
            yield Finding("rank.died", what, read_errors_remedy(name), name, level=level, part=part)


def _own_errors(ran: JobRun, said: Statements) -> list[Finding]:
    """Return the errors of ranks that blame nobody else, one for all ranks of a node alike.

    It is one for all if most nodes have some, or if what is wrong is wrong between ranks.
    """
    alike: dict[tuple[str, str], list[RankEvent]] = defaultdict(list)
    causes: dict[tuple[str, str], KnownCause | None] = {}
    for event in said.of("failed"):
        name = ran.job.node_of(event["rank"])
        cause, words = _cause_of(ran.nodes[name], event["error"])
        is_victim = cause.whose in VICTIMS if cause else blames_others(event["error"])
        if not is_victim:
            key = name, cause.id if cause else words
            alike[key].append({**event, "error": words})
            causes[key] = cause
    nodes = tuple(dict.fromkeys(name for name, _ in alike))
    found = [_own_error(name, events, causes[name, key]) for (name, key), events in alike.items()]
    common = {cause.id: cause for cause in causes.values() if cause}
    is_between = any(cause.whose == "all" for cause in common.values())
    if found and (is_between or len(nodes) > max(2, len(ran.nodes) / 2)):
        ranks = sum(map(len, alike.values()))
        what = f"{ranks} ranks on {len(nodes)} nodes failed, the first one: {found[0].what}"
        remedy = "On the controller, read logs/ranks.jsonl of this run"
        if len(common) == 1 and all(causes.values()):
            remedy = found[0].remedy.removeprefix(f"On {nodes[0]}: ")
        return [
            Finding(
                "rank.failed",
                what,
                remedy,
                level="fleet",
                nodes=() if is_between else nodes,
                values=found[0].values,
            )
        ]
    return found


def _cause_of(node: NodeRun, error: str) -> tuple[KnownCause | None, str]:
    """Return what an error means, if that is known, and NCCL's own words for it.

    Where torch's last error only says that the proxy failed, its log has the cause.
    """
    words = last_error(error)
    cause = find_cause(words or error)
    if cause is not None and cause.id in ("proxy", "result"):
        logged = (each for _, text in log_files(node) for each in known_causes(text))
        cause, words = next((one for one in logged if one[0].whose == "own"), (cause, words))
    return cause, first_line(words or error)


def _own_error(name: str, events: Sequence[RankEvent], cause: KnownCause | None) -> Finding:
    first = events[0]
    also = f" and {len(events) - 1} more" if len(events) > 1 else ""
    error = f"{cause.meaning(first['error'])}: {first['error']}" if cause else first["error"]
    what = f"rank {first['rank']}{also} failed during {first['phase']!r}: {error}"
    return Finding(
        "rank.failed",
        what,
        f"On {name}: {cause.fix}" if cause else read_errors_remedy(name),
        name,
        level="node" if also else "rank",
        part="" if also else f"rank {first['rank']}",
        values={"cause": cause.id} if cause else {},
    )


def _network_errors(
    errors: Iterable[PathError],
    certain: Iterable[Finding],
    places: RailMap,
    ports: Collection[Place],
) -> list[Finding]:
    """Return the rails and paths that failed, but for paths to what is certainly at fault."""
    known = {name for finding in certain for name in finding.nodes}
    open_ones = [error for error in errors if not known & {node for node, _ in error.ends}]
    return network_errors.findings(open_ones, places, ports) if open_ones else []


def _broken_connections(ran: JobRun, said: Statements, places: RailMap) -> Iterator[Finding]:
    """Yield the node to which connections broke, by the addresses in the errors of the others.

    A rank that lost a connection ends, and its neighbors then lose theirs to it. So a node is
    accused if it alone reported nothing, or if at least two others name it, and twice as many as
    name any other one. A node that alone names more than two is at fault itself. Two nodes that
    name each other are named both.
    """
    named = _named_ends(ran, said, places)
    callers = {place: set(by) for place, by in named.items()}
    silent = [place for place in callers if place[0] not in said.spoke]
    names = {name for by in callers.values() for name in by}
    if len(names) == 1 and len({node for node, _ in callers}) > _MOST_ALONE:
        (alone,) = names
        error = next(iter(named.values()))[alone]
        what = f"it has no connection to {len(callers)} others: {error}"
        yield Finding("connection.broken", what, read_errors_remedy(alone), alone)
        return
    order = sorted(callers, key=lambda place: -len(callers[place]))
    most = [len(callers[place]) for place in order] + [0]
    if len(silent) == 1 and len(callers[silent[0]]) == most[0]:
        accused = silent[0]
    elif most[0] > 1 and most[0] >= 2 * most[1]:
        accused = order[0]
    else:
        yield from _mutual_path(named)
        return
    reporter, error = next(iter(named[accused].items()))
    what = f"{len(callers[accused])} nodes lost their connection to it, {reporter} first: {error}"
    is_proven = most[0] > 1 or set(ran.nodes) - said.spoke.keys() == {accused[0]}
    remedy = read_errors_remedy(accused[0])
    yield Finding("connection.broken", what, remedy, *accused, proven=is_proven)


def _named_ends(ran: JobRun, said: Statements, places: RailMap) -> dict[Place, dict[str, str]]:
    """Return by the place that errors name: who named it, with the error."""
    found: dict[Place, dict[str, str]] = defaultdict(dict)
    for event in said.of("failed"):
        name = ran.job.node_of(event["rank"])
        for address in _ADDRESS.findall(event["error"]):
            place = places.place_of(plain_address(address))
            if place and place[0] != name:
                found[place].setdefault(name, first_line(_last_words(event["error"])))
    return found


def _mutual_path(named: dict[Place, dict[str, str]]) -> Iterator[Finding]:
    """Yield the path between two nodes that name each other, if there is one such pair."""
    pairs = {
        tuple(sorted((place[0], by)))
        for place, errors in named.items()
        for by in errors
        if any(other[0] == by and place[0] in named[other] for other in named)
    }
    if len(pairs) == 1:
        (pair,) = pairs
        rail, error = next(
            (place[1], error)
            for place, errors in named.items()
            for by, error in errors.items()
            if {place[0], by} == set(pair)
        )
        what = f"they lost the connection to each other: {error}"
        yield Finding("connection.broken", what, read_errors_remedy(pair[0]), rail=rail, nodes=pair)


def _time_up(ran: JobRun, said: Statements) -> Finding | None:
    """Return that the time was up, if it was; that is not known to be anybody's fault."""
    late = {name: node for name, node in ran.nodes.items() if node.rc == _TIME_IS_UP}
    if not late:
        return None
    name, node = next(iter(late.items()))
    what = f"{node.why} during {said.phase_of(name)!r}"
    remedy = "Run rdmaprov accept again with a longer --timeout"
    return Finding("run.timeout", what, remedy, proven=False, level="fleet", nodes=tuple(late))


def _last_words(error: str) -> str:
    return last_error(error) or error


def _unknown_cause(ran: JobRun, said: Statements) -> Finding:
    last = said.last_words
    phase = last[0]["phase"] if last else said.phase_of(ran.job.nodes[0])
    what = f"why the run failed during {phase!r}: {_first_words(ran.nodes.values(), said)}"
    return Finding("run.failed", what, ISOLATE, proven=False)


def _first_words(nodes: Iterable[NodeRun], said: Statements) -> str:
    """Return the first thing that anybody said about the end."""
    if last := said.last_words:
        if error := last[0].get("error"):
            return first_line(_last_words(str(error)))
        sign = waiting.elsewhere_sign(last[0])
        return f"rank {last[0]['rank']}: {sign}" if sign else "all ranks wait for each other"
    deaths = (death_of(node, ()) for node in nodes if node.rc not in (None, 0))
    return next((death.why for death in deaths if death), "no rank reported")
