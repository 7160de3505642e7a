"""The text of Slurm's commands, parsed.

`scontrol -o show node` has one line per node in all versions, with each flag of the state. `sinfo`
breaks a reason over several lines, folds flags into one word, and its JSON differs by version.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from rdmaprov.problem import printable
from rdmaprov.runs.groups import fold_last
from rdmaprov.scheduler.model import NodeStatus
from rdmaprov.scheduler.programs import SchedulerError, most_bytes

_NAME = re.compile(r"NodeName=(\S+) ")
_STATE = re.compile(r" State=([A-Z_]+[*~#!%$@^+A-Z_-]*)(?: |$)")
# Behind it, newer versions have more. A reason is free text, its end is who set it and when; the
# name of a user of a directory can have an @ or a space.
_REASON = re.compile(r" Reason=(.*?) \[[^\[\]]+@\d{4}-\d\d-\d\dT[\d:]+\]")
_UNSIGNED = re.compile(r" Reason=(.*)$")
# A job can have no node, such as one that only asks for a burst buffer.
_JOB = re.compile(r"([0-9]+(?:_[0-9*\[\],%-]+)?(?:\+[0-9]+)?)\|(\S*)")
# [github.com/SchedMD/slurm, src/common/slurm_protocol_defs.c, node_states and node_state_flags, in
# the branches slurm-22.05 to slurm-25.11; INVAL and MAINT are what sinfo calls them]
_DRAIN, _WORKS = "DRAIN", {"ALLOCATED", "MIXED", "COMPLETING", "ERROR"}
_AWAY = {
    "DOWN", "UNKNOWN", "FUTURE", "FAIL", "NOT_RESPONDING", "NO_RESPOND", "INVALID_REG", "INVAL",
    "POWERED_DOWN", "POWERING_DOWN", "POWER_DOWN", "POWERING_UP", "POWER_UP", "REBOOT_ISSUED",
}  # fmt: skip
# With any other flag it is somebody's: RESERVED, BLOCKED (from 24.05), EXTERNAL (from 25.05),
# PERFCTRS (to 23.11), REBOOT_REQUESTED. The backfill scheduler keeps a PLANNED one for a job.
_IDLE = {"IDLE", "CLOUD", "DYNAMIC_NORM", "DYNAMIC_FUTURE"}
_RESERVED = {"RESERVED", "MAINTENANCE", "MAINT"}
_FIELD = re.compile(r"(\w+)=(\S*)")
_SIGNS = {"*": "NOT_RESPONDING", "~": "POWERED_DOWN", "%": "POWERING_DOWN", "!": "POWER_DOWN"}


def parse_nodes(text: str, nodes: Sequence[str]) -> dict[str, NodeStatus]:
    """Return the state of nodes from `scontrol -o show node`.

    Raises:
        SchedulerError: a node is missing, is there twice, or its line has no state.
    """
    found: dict[str, NodeStatus] = {}
    for line in filter(str.strip, text.splitlines()):
        status = _node(line)
        if status.node in found:
            raise _odd(f"it names {printable(status.node)} twice")
        found[status.node] = status
    missing = [name for name in nodes if name not in found]
    if missing:
        raise _odd(f"it does not name {', '.join(missing[:3])}")
    return {name: found[name] for name in nodes}


def _node(line: str) -> NodeStatus:
    before = line.partition(" Reason=")[0]
    name, state = _NAME.match(line), _STATE.search(before)
    if name is None or state is None:
        raise _odd(f"this line has no node with a state: {printable(line)[:60]}")
    flags = set(_flags(state[1]))
    why = _REASON.search(line) or _UNSIGNED.search(line)
    drains, up, busy = _DRAIN in flags, not flags & _AWAY, bool(flags & _WORKS)
    return NodeStatus(
        name[1],
        state[1].lower(),
        drains,
        busy,
        idle=flags <= _IDLE and "IDLE" in flags,
        planned="PLANNED" in flags and "IDLE" in flags and flags <= _IDLE | {"PLANNED"},
        up=up,
        # From 23.02 the reason of a node that was resumed stays [node_mgr.c, node_did_resp].
        reason=printable(" ".join(why[1].split())) if why and (drains or not up) else "",
    )


def is_idle_but_reserved(word: str) -> bool:
    """Return whether a node in this state (as `NodeStatus.word`) is idle, in a reservation or not.

    >>> is_idle_but_reserved("idle+reserved"), is_idle_but_reserved("mixed+reserved")
    (True, False)
    """
    flags = set(_flags(word.upper()))
    return "IDLE" in flags and flags <= _IDLE | _RESERVED


def parse_reservation(text: str) -> tuple[str, list[str]]:
    """Return state and nodes of `scontrol -o show reservation`; raise SchedulerError if none."""
    found = dict(_FIELD.findall(text))
    nodes = found.get("Nodes", "")
    if not nodes or nodes == "(null)":
        raise _odd("the reservation has no nodes")
    return found.get("State", ""), expand(nodes)


def fold_parts(nodes: Sequence[str]) -> list[str]:
    """Return lists of all nodes as Slurm's commands read them, folded, each short enough for them.

    A range is at the end of a name [slurm.conf(5), NodeName, of 22.05 to 25.11]: Slurm's
    hostlist_create() refuses n[1-2]-ib, which ClusterShell would write.

    >>> fold_parts(["n1", "n2", "n1-ib", "n2-ib"])
    ['n[1-2],n1-ib,n2-ib']
    """
    text, half = ",".join(fold_last(nodes)), len(nodes) // 2
    if len(text) <= most_bytes() or not half:
        return [text]
    return [*fold_parts(nodes[:half]), *fold_parts(nodes[half:])]


def expand(folded: str) -> list[str]:
    """Return the names of a folded list, such as `n[0-2]`; raise SchedulerError if it is none."""
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException

    try:
        return list(NodeSet(folded, resolver=RESOLVER_NOGROUP))
    except NodeSetException:
        raise _odd(f"this is no list of nodes: {printable(folded)[:60]}") from None


def _flags(word: str) -> Iterator[str]:
    """Yield a state's parts; older versions add signs to the first of them."""
    for part in filter(None, word.split("+")):
        yield part.rstrip("*~#!%$@^-")
        yield from (_SIGNS.get(sign, "OTHER") for sign in part if sign in "*~#!%$@^-")


def parse_jobs(text: str) -> Mapping[str, tuple[str, ...]]:
    """Return the jobs of nodes from `squeue -h -o %i|%N`; raise SchedulerError for other lines."""
    jobs: dict[str, tuple[str, ...]] = {}
    for line in filter(str.strip, text.splitlines()):
        found = _JOB.fullmatch(line.strip())
        if found is None:
            raise _odd(f"this line is no job with nodes: {printable(line)[:60]}")
        for node in expand(found[2]) if found[2] else ():
            jobs[node] = (*jobs.get(node, ()), found[1])
    return jobs


def _odd(why: str) -> SchedulerError:
    return SchedulerError(f"Slurm's answer cannot be read: {why}", "Run: scontrol -o show node")
