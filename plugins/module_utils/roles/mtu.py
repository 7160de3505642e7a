"""The MTU of a node's rails. Runs on the node."""

from __future__ import annotations

import re
from typing import Any

from .. import guard
from ..links import Links
from ..machine import Machine
from ..plan import RUNNING, Change, NotYet, Plan, Refused
from ..rails import Rail, find


def plan(machine: Machine, arguments: dict[str, Any]) -> Plan:
    """Return what must change for every rail to have its MTU, now and after a boot."""
    plan = Plan(machine)
    rails = find(machine, arguments["rails"])
    links = Links(machine, arguments["link_manager"])
    for rail in rails:
        _running(plan, rail, arguments["mtu_bytes"])
    guard.require(plan, rails, arguments)
    for rail in rails:
        links.of(rail.netdev).mtu(plan, rail, arguments["mtu_bytes"])
    links.settle(plan)
    guard.require(plan, rails, arguments)
    if not plan.steps:
        for rail in rails:
            _check_rdma(machine, rail, arguments["rdma_bytes"])
    return plan


def _running(plan: Plan, rail: Rail, mtu_bytes: int) -> None:
    seen = plan.machine.value(f"/sys/class/net/{rail.netdev}/mtu") or ""
    if seen == str(mtu_bytes):
        return

    def command(value: str) -> list[str]:
        return ["ip", "link", "set", "dev", rail.netdev, "mtu", value]

    change = Change(RUNNING, rail.netdev, "MTU", seen, str(mtu_bytes))
    plan.command(change, command(str(mtu_bytes)), undo=[command(seen)])


def _check_rdma(machine: Machine, rail: Rail, wanted_bytes: int) -> None:
    """Refuse a rail whose RDMA MTU does not follow from its network device's.

    ibv_devinfo is the only program that shows it; sysfs and `rdma link` do not.
    """
    if not rail.rdma:
        raise NotYet(f"{rail.netdev}: there is no RDMA device on it")
    if not machine.has("ibv_devinfo"):
        raise NotYet("ibv_devinfo is not installed, which shows the RDMA MTU")
    found = re.search(r"active_mtu:\s+(\d+)", machine.run(["ibv_devinfo", "-d", rail.rdma]))
    if found is None:
        raise NotYet(f"{rail.rdma}: ibv_devinfo shows no active_mtu")
    if int(found.group(1)) != wanted_bytes:
        raise Refused(
            f"{rail.rdma}: RDMA MTU {found.group(1)}, expected {wanted_bytes}, although "
            f"{rail.netdev} has its MTU. Is the port's maximum smaller? "
            "Run on the node: ibv_devinfo -v"
        )
