"""IPoIB's mode of the rails, in the running kernel. Runs on the node."""

from __future__ import annotations

from typing import Any

from ..machine import Machine, NodeError
from ..plan import RUNNING, Change, Plan, Refused
from ..rails import Rail
from .partition import is_there

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
    """Have each rail's network device in a mode.

    Raises:
        Refused: a device has no connected mode.
    """
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
            _plan(plan, rail, path, seen, mode)


def _plan(plan: Plan, rail: Rail, path: str, seen: str, mode: str) -> None:
    def do() -> None:
        try:
            plan.machine.set(path, mode + "\n")  # the kernel compares with the newline
        except NodeError as error:
            raise NodeError(f"{error}: {_WHY}") from error

    undo = [] if seen == "none" else [["sh", "-c", f"echo {seen} > {path}"]]
    plan.add(Change(RUNNING, rail.netdev, "IPoIB mode", seen, mode), do, undo=undo)
    effect = "the kernel forgets its paths and sets its MTU anew"
    plan.interrupt(f"{rail.netdev} IPoIB mode", effect, "for under 1 s")


def _is_enhanced(machine: Machine, rail: Rail) -> bool:
    driver = machine.real(f"/sys/class/net/{rail.port}/device/driver").rpartition("/")[2]
    return driver == "mlx5_core" and machine.value(_ENHANCED) in ("1", "Y")
