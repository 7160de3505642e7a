"""The quality of service of a node's rails: ports and RDMA devices. Runs on the node."""

from __future__ import annotations

from ..machine import Machine
from ..netdevs import below, master_of, with_below
from ..plan import NotYet, Plan
from ..rails import rdma_of
from .congestion import plan_congestion
from .description import Description
from .marking import plan_marking
from .port import plan_port
from .state import without_dcb


def netdevs_of(machine: Machine, rails: list[str]) -> list[str]:
    """Return the rails' network devices and the ports below them, each once."""
    return list(dict.fromkeys(each for rail in rails for each in with_below(machine, rail)))


def plan_netdevs(plan: Plan, netdevs: list[str], wanted: Description) -> None:
    """Plan ports, and the RDMA devices on them.

    Raises:
        NotYet: a port has no DCB although it could, or nothing but an RDMA device is missing.
    """
    marked: list[str] = []
    missing = ""
    for netdev in netdevs:
        if not below(plan.machine, netdev):
            _plan_one(plan, netdev, wanted)
        rdma = rdma_of(plan.machine, netdev)
        if rdma and rdma not in marked:
            plan_marking(plan, rdma, wanted)
            marked.append(rdma)
        # A bond's RDMA device is on its first port alone.
        if not rdma and not master_of(plan.machine, netdev):
            missing = missing or netdev
    if missing and not plan.steps:
        raise NotYet(
            f"{missing}: it has no RDMA device whose packets could be marked. "
            "Is its driver loaded? Run on the node: rdma link"
        )


def _plan_one(plan: Plan, netdev: str, wanted: Description) -> None:
    why = without_dcb(plan.machine, netdev)
    if why:
        plan.notes.append(f"{netdev}: it has no DCB: {why}")
        return
    if not plan_port(plan, netdev, wanted):
        raise NotYet(
            f"{netdev}: it has no DCB, although it is a port. Is its driver loaded? "
            f"Run on the node: dcb pfc show dev {netdev}"
        )
    plan_congestion(plan, netdev, wanted)
