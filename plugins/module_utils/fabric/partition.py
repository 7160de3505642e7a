"""IPoIB in the running kernel: interfaces of rails' partitions, and the mode. Runs on the node."""

from __future__ import annotations

import re
from typing import Any

from ..machine import Machine, NodeError
from ..plan import RUNNING, Change, Plan, Refused
from ..rails import FULL, Rail

_NET = "/sys/class/net/"
_NAME_BYTES = 15  # Linux include/uapi/linux/if.h: IFNAMSIZ, less the end


def require_used(rails: list[Rail], arguments: dict[str, Any]) -> None:
    """Raise Refused for a partition's interface where the site has no IPoIB."""
    rail = next((each for each in rails if each.parent), None)
    if rail is None or (arguments["kind"] == "infiniband" and arguments["ipoib"]):
        return
    has = "fabric_ipoib: false" if arguments["kind"] == "infiniband" else "fabric_kind: roce"
    raise Refused(f"rail {rail.index}: ipoib_pkey needs IPoIB, and the site has {has}. Remove one")


def plan_partitions(plan: Plan, rails: list[Rail]) -> None:
    """Have each rail's partition interface there; the kernel names it.

    By create_child, as a child that is made by netlink has no files of its mode and its key (Linux
    drivers/infiniband/ulp/ipoib/ipoib_vlan.c, __ipoib_vlan_add).

    Raises:
        Refused: an interface of this name has another key, or the kernel would have no such name.
    """
    for rail in rails:
        if not rail.parent:
            continue
        _require_name(rail)
        if is_there(plan.machine, rail):
            _require_key(plan.machine, rail)
        else:
            _plan(plan, rail)


def is_there(machine: Machine, rail: Rail) -> bool:
    """Return whether a rail's network device is there; that of a partition may be still to make."""
    return machine.exists(_NET + rail.netdev)


def key_of(machine: Machine, netdev: str) -> int | None:
    """Return the partition key of an IPoIB interface, None if its broadcast address shows none.

    The key is in there on every interface (RFC 4391, section 4; Linux
    drivers/infiniband/ulp/ipoib/ipoib_main.c, ipoib_ndo_init).
    """
    octets = (machine.value(f"{_NET}{netdev}/broadcast") or "").split(":")
    found = "".join(octets[8:10])
    return int(found, 16) if len(octets) == 20 and re.fullmatch(r"[0-9a-f]{4}", found) else None


def _plan(plan: Plan, rail: Rail) -> None:
    path, key = f"{_NET}{rail.parent}/create_child", f"0x{rail.pkey:04x}"
    undo = [["sh", "-c", f"echo {key} > {_NET}{rail.parent}/delete_child"]]
    change = Change(RUNNING, rail.netdev, "IPoIB partition", "none", key)
    plan.add(change, lambda: plan.machine.set(path, key + "\n"), undo=undo)


def _require_key(machine: Machine, rail: Rail) -> None:
    key = key_of(machine, rail.netdev)
    if key != rail.pkey:
        seen = "unknown" if key is None else f"0x{key:04x}"
        raise Refused(
            f"{rail.netdev}: its partition key is {seen}, "
            f"expected 0x{rail.pkey:04x} (fabric_rails; {_NET}{rail.netdev}/broadcast). Remove it "
            f"and what makes it; run on the node: ip link del {rail.netdev}"
        )


def _require_name(rail: Rail) -> None:
    if not rail.pkey & FULL:
        raise Refused(
            f"rail {rail.index}: ipoib_pkey 0x{rail.pkey:04x} lacks the bit of full membership, "
            f"which IPoIB's interface always has. Write 0x{rail.pkey | FULL:04x}"
        )
    if len(rail.netdev) > _NAME_BYTES:
        raise Refused(
            f"rail {rail.index}: {rail.netdev} is longer than the {_NAME_BYTES} characters of a "
            f"network device's name. Give {rail.parent} a shorter name (systemd.link(5), Name=)"
        )


# The vendor's driver alone has it: 1 gives mlx5's ports enhanced IPoIB, which is datagram only.
# [MLNX_OFED documentation, "IP over InfiniBand (IPoIB)"]
_ENHANCED = "/sys/module/ib_ipoib/parameters/ipoib_enhanced"
_WHY = (
    "enhanced IPoIB, as ConnectX-4 and later have it, has no connected mode. Write "
    "fabric_ipoib_mode: datagram, or, with OFED's drivers, mlx5_module_parameters: "
    "{ib_ipoib: {ipoib_enhanced: 0}}"
)


def mode_of(arguments: dict[str, Any]) -> str:
    """Return the mode that the site wants; empty if it leaves the mode alone."""
    wanted = arguments["kind"] == "infiniband" and arguments["ipoib"]
    return str(arguments["ipoib_mode"]) if wanted and arguments["ipoib_mode"] != "keep" else ""


def plan_mode(plan: Plan, rails: list[Rail], mode: str) -> None:
    """Have each rail's network device in a mode; raise Refused for one without connected mode."""
    for rail in rails if mode else ():
        path = f"/sys/class/net/{rail.netdev}/mode"
        seen = plan.machine.value(path)
        if rail.parent and not is_there(plan.machine, rail):
            seen = plan.machine.value(f"/sys/class/net/{rail.parent}/mode") and "none"
        if seen is None and mode == "datagram":
            continue  # a kernel without CONFIG_INFINIBAND_IPOIB_CM has no other
        if seen is None or (mode == "connected" and _is_enhanced(plan.machine, rail)):
            raise Refused(f"{rail.netdev}: {_WHY}")
        if seen != mode:
            _plan_mode(plan, rail, path, seen, mode)


def _plan_mode(plan: Plan, rail: Rail, path: str, seen: str, mode: str) -> None:
    def do() -> None:
        try:
            plan.machine.set(path, mode + "\n")  # the kernel compares with the newline
        except NodeError as error:
            raise NodeError(f"{error}: {_WHY}") from error

    undo = [] if seen == "none" else [["sh", "-c", f"echo {seen} > {path}"]]
    plan.add(Change(RUNNING, rail.netdev, "IPoIB mode", seen, mode), do, undo=undo)
    effect = "the kernel drops its paths and resets its MTU"
    plan.interrupt(f"{rail.netdev} IPoIB mode", effect, "for under 1 s")


def _is_enhanced(machine: Machine, rail: Rail) -> bool:
    driver = machine.real(f"/sys/class/net/{rail.port}/device/driver").rpartition("/")[2]
    return driver == "mlx5_core" and machine.value(_ENHANCED) in ("1", "Y")
