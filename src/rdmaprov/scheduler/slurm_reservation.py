"""Slurm's nodes that a reservation of the site's keeps free for tests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rdmaprov.scheduler.model import NodeStatus
from rdmaprov.scheduler.programs import SchedulerError
from rdmaprov.scheduler.slurm import Slurm, ask_slurm
from rdmaprov.scheduler.slurm_text import is_idle_but_reserved, parse_reservation

_HINT = "List them: scontrol show reservation"


@dataclass(frozen=True)
class SlurmReservation(Slurm):
    """Slurm, with none but the nodes of one reservation for idle.

    Nothing is held or released: the reservation is the site's, and stays.
    """

    name: str

    def status(self, nodes: Sequence[str]) -> Mapping[str, NodeStatus]:
        """Return the state of each node; idle is one of the reservation without a job."""
        text = ask_slurm("scontrol", "-o", "show", "reservation", self.name, hint=_HINT)
        state, reserved = parse_reservation(text)
        if state != "ACTIVE":
            raise SchedulerError(f"the reservation {self.name} is not active", _HINT)
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
