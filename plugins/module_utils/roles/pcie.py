"""The path between GPU and NIC: PCIe, IOMMU, interrupts, processors. Runs on the node."""

from __future__ import annotations

import os
import re
from typing import Any

from .. import bootloader, pci
from ..machine import Machine, NodeError
from ..pci import Function
from ..pcie import boot, running
from ..plan import Plan, Refused
from ..rails import find

CLASS = "/sys/class/iommu"
# Linux Documentation/admin-guide/kernel-parameters.txt: what a locked kernel does for itself.
_REDIRECT = "pci=disable_acs_redir"
_TABLES = "/sys/firmware/acpi/tables"
_PROCESSORS = "/proc/cpuinfo"
_HIGHEST_ID = 254
_NAMES = ("DMAR", "IVRS", "IORT")  # Intel, AMD, Arm
# Linux Documentation/admin-guide/kernel-parameters.txt
_ARGUMENTS = {
    "x86_64": {"passthrough": "iommu=pt", "off": "iommu=off"},
    "aarch64": {"passthrough": "iommu.passthrough=1"},
}


def mode(plan: Plan, wanted: str, functions: list[Function]) -> None:
    """Have the kernel started in this mode, and prove it for these functions once it is.

    Raises:
        Refused: this architecture's kernel has no such mode, somebody else sets another one, or the
            node could lose processors.
        NodeError: the kernel was started with the argument and does something else.
    """
    if wanted == "keep":
        return
    named = plan.machine.ask("architecture", architecture)
    argument = _ARGUMENTS.get(named, {}).get(wanted)
    if argument is None:
        raise Refused(f"pcie_iommu: the kernel has no argument for {wanted} on {named}; write keep")
    names = (argument.partition("=")[0],)
    running = bootloader.running_arguments(plan.machine, names)
    if not (running or _is_there(plan.machine)):
        plan.notes.append(f"IOMMU: the machine shows none ({CLASS}, {_TABLES})")
        return
    if wanted == "off" and running != [argument]:
        _require_low_ids(plan.machine)
    bootloader.arguments(plan, "pcie", names, [argument])
    if running == [argument]:
        _prove(plan.machine, wanted, argument, functions)


def architecture() -> str:
    """Return the machine's architecture, as the kernel names it."""
    return os.uname().machine


def _is_there(machine: Machine) -> bool:
    # Tables too: a kernel may have it off by default, and the next one on.
    return bool(machine.names(CLASS)) or any(machine.exists(f"{_TABLES}/{t}") for t in _NAMES)


def _require_low_ids(machine: Machine) -> None:
    """Refuse to risk interrupt remapping, which the IOMMU does, where processors need it.

    Without it the kernel leaves x2APIC mode, and so the processors with an id that 8 bits do not
    have (Linux arch/x86/kernel/apic/apic.c, try_to_enable_x2apic, x2apic_disable). 255 is all.
    """
    ids = re.findall(r"^apicid\s*:\s*(\d+)$", machine.read(_PROCESSORS) or "", re.MULTILINE)
    if not ids:
        raise Refused(
            f"pcie_iommu: off: {_PROCESSORS} shows no apicid, so it is unknown whether processors "
            "need interrupt remapping; write passthrough"
        )
    highest = max(map(int, ids))
    if highest > _HIGHEST_ID:
        raise Refused(
            f"pcie_iommu: off: the node has {len(ids)} processors with APIC ids up to {highest} "
            f"({_PROCESSORS}); those above {_HIGHEST_ID} need x2APIC, which needs the IOMMU's "
            "interrupt remapping: a boot without it may lack processors, or stop; "
            "write passthrough"
        )


def _prove(machine: Machine, wanted: str, argument: str, functions: list[Function]) -> None:
    if wanted == "off" and machine.names(CLASS):
        raise NodeError(
            f"the running kernel has {argument}, but {machine.names(CLASS)[0]} is on ({CLASS})"
        )
    for function in functions:
        group = function.directory + "/iommu_group"
        if not machine.exists(group):
            continue  # nothing translates for it
        seen = machine.value(group + "/type")
        if seen is None:
            raise NodeError(f"{function.address}: its IOMMU mode is unknown: no {group}/type")
        if seen != "identity":
            raise NodeError(
                f"{function.address}: the running kernel has {argument}, but its IOMMU mode "
                f"is {seen}, expected identity ({group}/type); does its driver or the firmware "
                "ask for translation?"
            )


def plan(machine: Machine, arguments: dict[str, Any]) -> Plan:
    """Return what must change for the path to be clear, now and after a boot.

    The running kernel first: what it does not take never gets into a file that a boot reads.
    """
    plan = Plan(machine)
    rails = find(machine, arguments["rails"])
    locked = running.add(plan, rails, arguments)
    boot.at_boot(plan, arguments, rails)
    found = [function for rail in rails for function in pci.of_rail(machine, rail)]
    mode(plan, arguments["iommu"], found)
    if locked and bootloader.takes_lists(machine):
        argument = f"{_REDIRECT}={';'.join(locked)}"
        bootloader.arguments(plan, "pcie-acs", (_REDIRECT,), [argument])
    return plan
