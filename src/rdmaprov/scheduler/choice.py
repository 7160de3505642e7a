"""Which scheduler a site has."""

import re
from collections.abc import Sequence

from rdmaprov.errors import UsageError
from rdmaprov.inventory import Node
from rdmaprov.problem import printable
from rdmaprov.scheduler.model import Scheduler
from rdmaprov.scheduler.no_scheduler import NoScheduler
from rdmaprov.scheduler.own_programs import OwnPrograms
from rdmaprov.scheduler.slurm import Slurm, SlurmReservation

_RESERVATION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
KIND, WAIT_S = "scheduler_kind", "scheduler_wait_s"
STATE, DRAIN, RESUME = (f"scheduler_{what}_command" for what in ("state", "drain", "resume"))


def choose_scheduler(nodes: Sequence[Node]) -> Scheduler:
    """Return the scheduler of nodes; raise UsageError if two have different ones."""
    kinds = sorted({str(node.get(KIND) or "none") for node in nodes})
    if len(kinds) > 1:
        raise UsageError(
            f"the nodes have different schedulers ({KIND}): {', '.join(kinds)}",
            "Write it once, in group_vars/all.yml",
        )
    if kinds == ["slurm"]:
        return Slurm()
    if kinds == ["command"]:
        words = [tuple(str(word) for word in nodes[0].get(name) or ()) for name in _COMMANDS]
        return OwnPrograms(*words)
    return NoScheduler()


def choose_witness_scheduler(scheduler: Scheduler, reservation: str) -> Scheduler:
    """Return who knows which nodes are idle to measure with.

    Args:
        reservation: of Slurm, whose nodes alone may be witnesses; empty for any idle node.

    Raises:
        UsageError: the site's scheduler is not Slurm, or the name is none of a reservation.
    """
    if not reservation:
        return scheduler
    if not isinstance(scheduler, Slurm):
        raise UsageError(
            "--reservation needs Slurm, which is not the site's scheduler",
            f"Write {KIND}: slurm in group_vars/all.yml, or name idle nodes with --witnesses",
        )
    if not _RESERVATION.fullmatch(reservation):
        raise UsageError(
            f"--reservation {printable(reservation)[:60]} is no name of a reservation",
            "List them: scontrol show reservation",
        )
    return SlurmReservation(reservation)


_COMMANDS = (STATE, DRAIN, RESUME)


def wait_s(nodes: Sequence[Node]) -> float:
    """Return how long to wait for jobs to end, in seconds: the longest of the nodes'."""
    return max((float(node.get(WAIT_S) or 0) for node in nodes), default=0.0)
