"""What a flavour of the RDMA drivers needs done with packages. Runs on the node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..machine import Machine
from ..packages import Manager, Offer
from ..plan import Plan, Refused
from . import driver, package_names


@dataclass(frozen=True)
class Work:
    """A flavour's part of a plan."""

    add: Callable[[Plan], None]
    # packages may stay halfway until those steps, which have apt finish them, or remove them
    tolerate: bool
    drop: list[str]


def exchanges(plan: Plan) -> None:
    """Say what an exchange of drivers interrupts."""
    effect = "programs that start meanwhile may find no RDMA libraries, or ones of another version"
    plan.interrupt("RDMA drivers", effect, "for several minutes")


def exchange(
    machine: Machine,
    manager: Manager,
    remove: list[str],
    install: list[Offer],
    back: tuple[Offer, ...] = (),
) -> None:
    """Remove packages, then install others, if nothing else of the node's goes along.

    Args:
        back: what comes along with those installed, of those removed.

    Raises:
        Refused: something else would, and nothing was changed.
    """
    present = manager.installed()
    remove = [name for name in remove if name in present]  # a repair may have taken some
    again = {offer.name for offer in back}
    lost = manager.lost_with(remove, []) if remove else []
    if install:
        lost += manager.lost_with([name for name in remove if name not in again], [*install, *back])
    strange = sorted({name for name in lost if not package_names.is_rdma(name)} - {*remove})
    if strange:
        raise Refused(
            "{} would also be removed with the old drivers; nothing was "
            "changed. To continue, remove it first".format(", ".join(strange))
        )
    driver.packages_change(machine)
    manager.change(remove, install)
