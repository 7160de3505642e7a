"""The quality of service of a node's RoCE rails. Runs on the node."""

from __future__ import annotations

import json
from typing import Any

from .. import bluefield, guard, systemd
from ..machine import Machine
from ..plan import CONFIGURED, Change, Plan, Refused
from ..qos import description
from ..qos.install import plan_program, plan_units
from ..qos.marking import require_agreement
from ..qos.node import netdevs_of, plan_netdevs
from ..qos.program import description_of
from ..rails import find, require_netdevs

SERVICE = "lldpad.service"
SOCKET = "lldpad.socket"
_PROPERTIES = "Id,LoadState,ActiveState,UnitFileState"
# What the program at boot does not get.
_NOT_OF_A_PORT = (
    "kind",
    "rails",
    "nccl_traffic_class",
    "lldpad",
    "guard_allowed_netdevs",
    "guard_revert_s",
)


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


def plan(machine: Machine, arguments: dict[str, Any]) -> Plan:
    """Return what must change for RoCE to be lossless, now and whenever a device comes back.

    What runs is set first: what a port does not take never gets into what a boot sets.
    """
    plan = Plan(machine)
    why = _left_alone(arguments)
    if why:
        plan_units(plan, [], changed=False)
        plan.notes.append(why)
        return plan
    wanted = description.describe(arguments)
    require_agreement(wanted, arguments["nccl_traffic_class"])
    rails = find(machine, arguments["rails"])
    require_netdevs(rails)
    netdevs = netdevs_of(machine, [rail.netdev for rail in rails])
    bluefield.require_host_owns(plan, netdevs)
    plan_without_lldpad(plan, arguments["lldpad"])
    plan_netdevs(plan, netdevs, wanted)
    if any(step.undo for step in plan.steps):
        plan.guarded = guard.devices_to_guard(machine, rails, arguments, below=True)
    _plan_boot(plan, netdevs, arguments)
    return plan


def _left_alone(arguments: dict[str, Any]) -> str:
    if arguments["kind"] != "roce":
        return "rails: their link layer is InfiniBand, which has no DCB and no ToS"
    if arguments["backend"] == "keep":
        return "rails: roce_qos_backend is keep, so their QoS is left as it is"
    return ""


def _plan_boot(plan: Plan, netdevs: list[str], arguments: dict[str, Any]) -> None:
    changed = plan_program(plan)
    chosen = {name: value for name, value in arguments.items() if name not in _NOT_OF_A_PORT}
    text = json.dumps(chosen, indent=2, sort_keys=True) + "\n"
    for netdev in netdevs:
        changed |= plan.file(description_of(netdev), text)
    plan_units(plan, netdevs, changed)
