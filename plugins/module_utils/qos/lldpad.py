"""lldpad, which negotiates DCB with the switch and overwrites what is set. Runs on the node."""

from __future__ import annotations

from .. import systemd
from ..plan import CONFIGURED, Change, Plan, Refused

SERVICE = "lldpad.service"
SOCKET = "lldpad.socket"
_PROPERTIES = "Id,LoadState,ActiveState,UnitFileState"


def plan_without_lldpad(plan: Plan, how: str) -> None:
    """Have no lldpad, now or at boot: by masking it, or by refusing a node that has it."""
    known = systemd.show(plan.machine, _PROPERTIES, [SERVICE, SOCKET])
    found = [(each["Id"], _state(each)) for each in known if _state(each)]
    if not found:
        return
    unit, state = found[0]
    if how != "mask":
        raise Refused(
            f"{unit} is {state} and would overwrite the ports' QoS. Run on the node: "
            f"systemctl mask --now {SERVICE} {SOCKET}; or write roce_qos_lldpad: mask"
        )
    change = Change(CONFIGURED, unit, "unit", state, "masked")
    plan.command(change, ["systemctl", "mask", "--now", SERVICE, SOCKET])


def _state(unit: dict[str, str]) -> str:
    """Return how a unit can run, empty if it cannot."""
    if unit.get("ActiveState") in ("active", "activating", "reloading"):
        return "active"
    return "enabled" if unit.get("UnitFileState") in ("enabled", "enabled-runtime") else ""
