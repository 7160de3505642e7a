"""Whether the host owns a BlueField's ports, or its Arm processors do. Runs on the node.

Where the Arm processors do (DPU mode, also called ECPF or embedded mode), QoS that the host sets is
undefined [NVIDIA BlueField BSP documentation, "QoS Configuration" and "Modes of Operation"]. The
suite reads the same in rdmaprov.facts.bluefield; tests/unit/facts/test_bluefield.py holds both
together.
"""

from __future__ import annotations

from . import nic_firmware, pci
from .machine import CommandFailed, Machine, NodeError
from .nic_firmware import ENGINE, MODEL, Setting
from .plan import Plan, Refused

# Linux drivers/net/ethernet/mellanox/mlx5/core/main.c, mlx5_core_pci_table: BlueField to 4.
IDS = ("0xa2d2", "0xa2d6", "0xa2dc", "0xa2df")


def require_host_owns(plan: Plan, netdevs: list[str]) -> None:
    """Refuse ports whose QoS is not the host's.

    Raises:
        Refused: a BlueField is in DPU mode.
        NodeError: it is unknown in which mode it is, other than for a kernel that is locked down;
            that is a warning.
    """
    machine, unknown = plan.machine, []
    for netdev in netdevs:
        for function in pci.functions(machine, netdev):
            if _is_bluefield(machine, function) and not _is_out_of_reach(machine, function):
                _require(machine, netdev, function.address)
            elif _is_bluefield(machine, function):
                unknown.append(f"{netdev} {function.address}")
    if unknown:
        plan.warnings.append(
            f"BlueFields' modes are unknown ({', '.join(unknown)}): the kernel is locked down "
            f"({pci.LOCKDOWN}), and no tool can access a card. In DPU mode, QoS that the host "
            "sets is undefined; look on the BlueField itself"
        )


def host_owns(settings: dict[str, Setting]) -> bool | None:
    """Return whether the host owns the ports by the firmware's settings; None if they do not tell.

    It does in NIC mode, where the offload engine is DISABLED(1), and with a SEPARATED_HOST(0).
    """
    engine = settings[ENGINE].current if ENGINE in settings else ""
    model = settings[MODEL].current if MODEL in settings else ""
    if engine.endswith("(1)") or model.endswith("(0)"):
        return True
    return False if engine.endswith("(0)") and model.endswith("(1)") else None


def _is_bluefield(machine: Machine, function: pci.Function) -> bool:
    seen = [machine.value(f"{function.directory}/{name}") for name in ("vendor", "device")]
    return seen[0] == nic_firmware.VENDOR and seen[1] in IDS


def _is_out_of_reach(machine: Machine, function: pci.Function) -> bool:
    """Return whether a locked kernel keeps the tool that is there from the card."""
    tool = next((tool for tool in nic_firmware.TOOLS if machine.has(tool)), "")
    is_locked = bool(tool) and pci.is_locked_down(machine)
    return is_locked and not nic_firmware.can_query(machine, tool, function.address)


def _require(machine: Machine, netdev: str, address: str) -> None:
    what = f"{netdev}: {address} is a BlueField"
    tool = next((tool for tool in nic_firmware.TOOLS if machine.has(tool)), "")
    if not tool:
        raise NodeError(
            f"{what}, and without mstconfig (mstflint) it is unknown whether it is in DPU mode, in "
            "which the host must not set QoS"
        )
    try:
        owns = host_owns(nic_firmware.parse(machine.run([tool, "-d", address, "-e", "query"])))
    except CommandFailed as error:
        raise NodeError(f"{what}, and it is unknown whether it is in DPU mode: {error}") from error
    if owns is None:
        raise NodeError(
            f"{what}, and its firmware does not show whether it is in DPU mode: {MODEL}, {ENGINE} "
            f"({tool} -d {address} -e query)"
        )
    if not owns:
        raise Refused(
            f"{what} in DPU mode: its Arm processors own the port, and QoS that the host sets is "
            "undefined. Set QoS there and leave the role roce_qos out of this node, or change to "
            f"NIC mode: {tool} -d {address} set {ENGINE}=1, and a power cycle"
        )
