"""Slurm, by its own commands."""

import math
import os
import pwd
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from rdmaprov.problem import printable
from rdmaprov.scheduler.model import NodeStatus
from rdmaprov.scheduler.programs import SchedulerError, ask
from rdmaprov.scheduler.slurm_text import (
    fold_parts,
    is_idle_but_reserved,
    parse_jobs,
    parse_nodes,
    parse_reservation,
)

_HINT = "Run: scontrol ping"
_LIST = "List them: scontrol show reservation"
_ABSENT = "Run this where Slurm's commands are, such as on a login node"
_HAS_NODES = "R,CG,CF,S,ST"  # running, completing, configuring, suspended, stopped
WHERE = "Run: sinfo -N; names in the inventory must be Slurm's NodeName"


@dataclass(frozen=True)
class Slurm:
    """The cluster of this machine's slurm.conf; names in the inventory are its NodeNames."""

    def status(self, nodes: Sequence[str]) -> Mapping[str, NodeStatus]:
        """Return the state of each node, with the jobs that have it."""
        if not nodes:
            return {}
        words, parts = ("scontrol", "-o", "show", "node"), fold_parts(nodes)
        found = parse_nodes("\n".join(ask_slurm(*words, e, hint=WHERE) for e in parts), nodes)
        # Without -w: squeue gets all jobs and compares each with the list [print.c, _filter_job].
        jobs = parse_jobs(ask_slurm("squeue", "-h", "-t", _HAS_NODES, "-o", "%i|%N"))
        return {name: _with_jobs(each, jobs.get(name, ())) for name, each in found.items()}

    def drain(self, node: str, reason: str) -> None:
        """Have a node get no new job; `scontrol` silently overwrites any reason."""
        ask_slurm("scontrol", "update", f"nodename={node}", "state=drain", f"reason={reason}")

    def resume(self, node: str) -> None:
        """Return a drained node to service."""
        ask_slurm("scontrol", "update", f"nodename={node}", "state=resume")

    def hold(self, nodes: Sequence[str], label: str, seconds: float) -> None:
        """Reserve nodes for this user; a reservation ends by itself if this process is killed."""
        self.release(nodes, label)
        for number, part in enumerate(fold_parts(nodes)):
            # Not MAGNETIC, which would draw this user's own jobs in.
            ask_slurm(
                *("scontrol", "create", "reservation"),
                f"reservationname={label}{f'-part{number}' if number else ''}",
                f"users={pwd.getpwuid(os.geteuid()).pw_name}",
                f"nodes={part}",
                "flags=maint,ignore_jobs",
                "starttime=now",
                f"duration={math.ceil(seconds / 60)}",
            )

    def release(self, nodes: Sequence[str], label: str) -> None:  # noqa: ARG002 - it knows its own
        """Delete the reservation and its other parts, if they are there."""
        pattern = rf"^ReservationName=({re.escape(label)}(?:-part\d+)?) "
        shown = ask_slurm("scontrol", "-o", "show", "reservation")
        for name in re.findall(pattern, shown, re.MULTILINE):
            with suppress(SchedulerError):  # its time ended since
                ask_slurm("scontrol", "delete", f"reservationname={name}")

    def resume_command(self, node: str) -> str:
        """Return Slurm's command."""
        return f"scontrol update nodename={node} state=resume"


def _with_jobs(status: NodeStatus, jobs: tuple[str, ...]) -> NodeStatus:
    """Return a state with its jobs; a suspended job leaves its node idle, and is still there."""
    return replace(status, jobs=jobs, busy=True, idle=False, planned=False) if jobs else status


def health_check_program(nodes: Sequence[str]) -> str:
    """Return the HealthCheckProgram of the Slurm here that has nodes; empty if none is known."""
    try:
        said = ask_slurm("scontrol", "show", "config")
        Slurm().status(nodes)
    except SchedulerError:
        return ""
    found = re.search(r"^HealthCheckProgram\s*=\s*(/\S+)", said, re.MULTILINE)
    return printable(found[1]) if found else ""


def ask_slurm(*argv: str, hint: str = _HINT) -> str:
    """Return what one of Slurm's commands prints; raise SchedulerError if it ends badly."""
    return ask(argv, hint, _ABSENT)


@dataclass(frozen=True)
class SlurmReservation(Slurm):
    """Slurm, with none but the nodes of one reservation for idle.

    Nothing is held or released: the reservation is the site's, and stays.
    """

    name: str

    def status(self, nodes: Sequence[str]) -> Mapping[str, NodeStatus]:
        """Return the state of each node; idle is one of the reservation without a job."""
        text = ask_slurm("scontrol", "-o", "show", "reservation", self.name, hint=_LIST)
        state, reserved = parse_reservation(text)
        if state != "ACTIVE":
            raise SchedulerError(f"the reservation {self.name} is not active", _LIST)
        own = set(reserved)
        return {
            name: replace(
                each, idle=name in own and not each.busy and is_idle_but_reserved(each.word)
            )
            for name, each in super().status(nodes).items()
        }

    def hold(self, nodes: Sequence[str], label: str, seconds: float) -> None:
        """Do nothing: the reservation keeps other jobs off."""

    def release(self, nodes: Sequence[str], label: str) -> None:
        """Do nothing: the reservation stays."""
