"""The MTU of a node's rails. Runs on the node."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from .. import guard
from ..fabric.partition import is_there, mode_of
from ..links import Links
from ..machine import Machine, NodeError
from ..netdevs import vlan_parents
from ..plan import RUNNING, Change, NotYet, Plan, Refused
from ..rails import Rail, find, require_netdevs

# Most bytes by IPoIB's mode. Linux drivers/infiniband/ulp/ipoib/ipoib.h: IPOIB_UD_MTU of the 4096
# bytes that a port has at most, IPOIB_CM_MTU.
_IPOIB_MOST = {"datagram": 4092, "connected": 65520}


def plan(machine: Machine, arguments: dict[str, Any]) -> Plan:
    """Return what must change for every rail to have its MTU, now and after a boot."""
    plan = Plan(machine)
    rails = find(machine, arguments["rails"])
    if arguments["kind"] == "infiniband" and not arguments["ipoib"]:
        for rail in rails:
            _check_rdma(machine, rail, arguments["rdma_bytes"])
        return plan
    require_netdevs(rails)
    links = Links(machine, arguments["link_manager"])
    # The kernel refuses a VLAN's MTU above that of the device below it (ERANGE), so that is first.
    below_vlans = [each for rail in rails for each in _below_vlan(machine, rail, arguments)]
    for rail in [*below_vlans, *rails]:
        _running(plan, rail, arguments["mtu_bytes"], mode_of(arguments))
    guard.require(plan, rails, arguments, below=True)
    for rail in [*below_vlans, *rails]:
        links.of(rail.port).mtu(plan, rail, arguments["mtu_bytes"])
    links.settle(plan)
    guard.require(plan, rails, arguments, below=True)
    if not plan.steps:
        for rail in rails:
            _check_rdma(machine, rail, arguments["rdma_bytes"])
    return plan


def _below_vlan(machine: Machine, rail: Rail, arguments: dict[str, Any]) -> list[Rail]:
    """Return the devices below a VLAN that must get its MTU, the lowest first.

    One with a larger MTU is left as its owner has it. A bond gives its own to its ports.
    """
    return [
        replace(rail, netdev=name)
        for name in vlan_parents(machine, rail.netdev)
        if int(machine.value(f"/sys/class/net/{name}/mtu") or 0) <= arguments["mtu_bytes"]
    ]


def _running(plan: Plan, rail: Rail, mtu_bytes: int, wanted_mode: str) -> None:
    seen = plan.machine.value(f"/sys/class/net/{rail.netdev}/mtu") or ""
    if seen == str(mtu_bytes):
        return

    mode = _ipoib_mode(plan.machine, rail, mtu_bytes, wanted_mode)

    def command(value: str) -> list[str]:
        return ["ip", "link", "set", "dev", rail.netdev, "mtu", value]

    def do() -> None:
        if rail.parent and not is_there(plan.machine, rail):
            raise NodeError(
                f"{rail.netdev}: there is no such network device: the role fabric makes a "
                "partition's interface (ipoib_pkey). Run: rdmaprov apply SITE --roles fabric,mtu"
            )
        plan.machine.run(command(str(mtu_bytes)))
        if mode == "datagram":
            _require_partition(plan.machine, rail, mtu_bytes)

    change = Change(RUNNING, rail.netdev, "MTU", seen, str(mtu_bytes))
    plan.add(change, do, undo=[command(seen)])
    # Linux drivers/net/ethernet/mellanox/mlx5/core/en_main.c: mlx5e_change_mtu,
    # mlx5e_safe_switch_params.
    effect = "its queues are closed and reopened"
    plan.interrupt(f"{rail.netdev} MTU", effect, "for under 1 s")


def _ipoib_mode(machine: Machine, rail: Rail, mtu_bytes: int, wanted: str) -> str:
    """Return the mode of IPoIB, empty for Ethernet; the role fabric sets the site's before this."""
    path = f"/sys/class/net/{rail.netdev}/mode"
    mode = wanted or machine.value(path) or ""
    most = _IPOIB_MOST.get(mode, mtu_bytes)
    if mtu_bytes > most:
        raise Refused(
            f"{rail.netdev}: IPoIB in {mode} mode has an MTU of at most {most}, expected "
            f"{mtu_bytes} (fabric_mtu_bytes; {path})"
        )
    return mode


def _require_partition(machine: Machine, rail: Rail, wanted: int) -> None:
    """Require that the partition allows the MTU: the kernel takes a larger one, and cuts it.

    Linux drivers/infiniband/ulp/ipoib/ipoib_main.c, ipoib_change_mtu: min(mcast_mtu, admin_mtu).
    """
    seen = machine.value(f"/sys/class/net/{rail.netdev}/mtu") or ""
    if seen.isdigit() and int(seen) < wanted:
        raise NodeError(
            f"{rail.netdev}: MTU is {seen} after it was set to {wanted}: the partition's multicast "
            "group allows no more. Give the partition mtu=5 (4096 bytes) in the subnet manager's "
            f"partitions.conf, or write fabric_mtu_bytes: {seen}"
        )


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
            f"{rail.name} has its MTU. Is the port's maximum smaller? "
            "Run on the node: ibv_devinfo -v"
        )
