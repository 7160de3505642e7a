"""Whether devices' memory accesses are translated, now and after a boot. Runs on the node."""

from __future__ import annotations

import os

from .. import bootloader
from ..machine import Machine, NodeError
from ..pci import Function
from ..plan import Plan, Refused

CLASS = "/sys/class/iommu"
_TABLES = "/sys/firmware/acpi/tables"
_NAMES = ("DMAR", "IVRS", "IORT")  # Intel, AMD, Arm
# Linux Documentation/admin-guide/kernel-parameters.txt
_ARGUMENTS = {
    "x86_64": {"passthrough": "iommu=pt", "off": "iommu=off"},
    "aarch64": {"passthrough": "iommu.passthrough=1"},
}


def mode(plan: Plan, wanted: str, functions: list[Function]) -> None:
    """Have the kernel started in this mode, and prove it for these functions once it is.

    Raises:
        Refused: this architecture's kernel has no such mode, or somebody else sets another one.
        NodeError: the kernel was started with the argument and does something else.

    """
    if wanted == "keep":
        return
    argument = _ARGUMENTS.get(architecture(), {}).get(wanted)
    if argument is None:
        raise Refused(
            f"pcie_iommu: the kernel has no argument for {wanted} on {architecture()}; write keep"
        )
    names = (argument.partition("=")[0],)
    running = bootloader.running_arguments(plan.machine, names)
    if not (running or _is_there(plan.machine)):
        plan.notes.append(f"IOMMU: the machine shows none ({CLASS}, {_TABLES})")
        return
    bootloader.arguments(plan, "pcie", names, [argument])
    if running == [argument]:
        _prove(plan.machine, wanted, argument, functions)


def architecture() -> str:
    """Return the machine's architecture, as the kernel names it."""
    return os.uname().machine


def _is_there(machine: Machine) -> bool:
    # Tables too: a kernel may have it off by default, and the next one on.
    return bool(machine.names(CLASS)) or any(machine.exists(f"{_TABLES}/{t}") for t in _NAMES)


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
