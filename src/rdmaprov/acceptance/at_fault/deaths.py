"""How the processes of a node ended, and whether that was their own fault.

torch's watchdog ends a rank that saw a network error, or waited too long, by SIGABRT
(ProcessGroupNCCL.cpp, "we are taking the entire process down"); that rank is a victim.
"""

import re
import signal
from collections.abc import Collection
from dataclasses import dataclass

from rdmaprov.acceptance.ranks.run import NodeRun

# What is said when another rank is gone or does not answer, in the words of gloo, c10d and
# NCCL: src/init.cc (ncclGetErrorString), src/misc/socket.cc, src/transport/net_ib.
_OTHERS_FAULT = re.compile(
    r"connection (?:closed|reset|refused|was likely closed)|broken pipe|socket closed|"
    r"timed out|wait timeout|failed to pass monitoredBarrier|recvValue failed|"
    r"remote process exited|no route to host|Got completion (?:from peer|with)|ncclRemoteError|"
    r"ibv_modify_qp failed|Failed to execute operation Connect|"
    r"Watchdog caught collective operation timeout|"
    # Another program has the port of the rendezvous; that is no fault of this one's node.
    r"EADDRINUSE|address already in use|"
    r"failed to recv, got 0 bytes|heartbeat.* timed? ?out",
    re.IGNORECASE,
)
# The last line of a traceback: the error's class, in its module, and what it says.
_ERROR = re.compile(r"[\w.]*(?:Error|Exception)\b")
# Nothing in the process itself sends these: the kernel's OOM killer, a person, the bus.
_FROM_OUTSIDE = {signal.SIGKILL, signal.SIGBUS, signal.SIGILL}


@dataclass(frozen=True)
class Death:
    """How a node's processes ended."""

    why: str  # what ended them, as one line
    rank: int | None  # the rank that ended, None if that is not said
    is_victim: bool  # whether their own words blame others


def blames_others(error: str) -> bool:
    """Return whether an error says that another rank, or the network, is the cause."""
    return bool(_OTHERS_FAULT.search(error))


def death_of(node: NodeRun, spoke: Collection[int], saw_errors: bool = False) -> Death | None:
    """Return how a node's processes ended, None if its ranks reported why.

    Args:
        spoke: its ranks that reported why they end.
        saw_errors: whether NCCL's words on it are about completions with error.
    """
    failed = list(node.ended.items())
    silent = [(rank, -status) for rank, status in failed if status < 0 and rank not in spoke]
    for rank, number in silent:
        if number in _FROM_OUTSIDE:
            return Death(f"rank {rank} was killed by signal {number}", rank, False)
    if spoke:
        return None
    is_victim = saw_errors or blames_others(node.errors)
    if silent:
        rank, number = silent[0]
        return Death(f"rank {rank} was killed by signal {number}", rank, is_victim)
    if failed and (said := _own_words(node.errors, failed[0][0])):
        rank, status = failed[0]
        why = f"rank {rank} exited with status {status}: {said[-1][:300]}"
        return Death(why, rank, saw_errors or blames_others("\n".join(said)))
    return Death(_last_error(node), None, is_victim)


def _own_words(errors: str, rank: int) -> list[str]:
    """Return the lines in which a rank names its errors; torch puts `[rank1]: ` before each."""
    prefix = f"[rank{rank}]: "
    said = (line.removeprefix(prefix) for line in errors.splitlines() if line.startswith(prefix))
    return [line for line in said if _ERROR.match(line)]


def _last_error(node: NodeRun) -> str:
    said = [line.strip() for line in node.errors.splitlines() if line.strip()]
    errors = [line for line in said if re.search(r"(?:Error|Exception)\b|[Nn]o module", line)]
    why = node.why or (errors or said or ["no error message"])[-1]
    return f"its ranks ended with status {node.rc}: {why[:300]}"
