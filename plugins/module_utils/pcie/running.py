"""What the role pcie sets in a running kernel, now and again at each boot. Runs on the node.

On the node it is listed twice: in the role's module, and as the program of the unit.
"""

from __future__ import annotations

from typing import Any

from .. import pci
from ..machine import Machine
from ..pci import Function
from ..plan import RUNNING, Change, Plan, Refused
from ..rails import Rail
from . import interrupts

NUMA_BALANCING = "/proc/sys/kernel/numa_balancing"
_READ_REQUEST, _REDIRECT = "MaxReadReq", "ACS redirect"  # settings that are in registers
POLICIES = "/sys/devices/system/cpu/cpufreq"
# Drivers that have a device for a virtual machine; redirects of ACS keep its DMA apart.
_PASS_THROUGH = ("vfio-pci", "pci-stub", "pciback")


def add(plan: Plan, rails: list[Rail], arguments: dict[str, Any]) -> list[str]:
    """Add what must change in the running kernel.

    Returns the bridges whose redirects a locked kernel lets nobody switch off, but a boot.

    Raises:
        Refused: the node does not have what is wanted, or something else decides it.
    """
    before = len(plan.steps)
    by_rail = [(rail, pci.of_rail(plan.machine, rail)) for rail in rails]
    _numa_balancing(plan, arguments["numa_balancing"])
    _governor(plan, arguments["cpu_governor"])
    for rail, functions in by_rail:
        if not functions:
            plan.notes.append(f"{rail.name}: it is not on PCI")
        for function in functions:
            if arguments["max_read_request_bytes"] != "keep":
                _read_request(plan, rail, function, int(arguments["max_read_request_bytes"]))
            if arguments["irq_affinity"] == "local":
                interrupts.local(plan, function, f"{rail.name} {function.address}")
    bridges: list[Function] = []
    if arguments["acs_redirect"] == "off":
        nics = [function for _, found in by_rail for function in found]
        # The unit's description has no IOMMU: a boot's program has nobody to warn.
        bridges = _redirects(plan, nics, arguments.get("iommu", ""))
    if pci.is_locked_down(plan.machine) and _leave_registers(plan, before):
        return [bridge.address for bridge in bridges]
    return []


def _leave_registers(plan: Plan, before: int) -> bool:
    """Take out the steps that a locked kernel refuses, and say once what they would have set.

    Returns whether redirects are among them.
    """
    steps = plan.steps[before:]
    registers = (_READ_REQUEST, _REDIRECT)
    left = [each.change for each in steps if each.change and each.change.setting in registers]
    plan.steps = [step for step in plan.steps if step.change not in left]
    if not left:
        return False
    lines = [f"{each.device} {each.setting} {each.seen}" for each in left]
    redirects = ";".join(each.device for each in left if each.setting == _REDIRECT)
    remedy = f"; for ACS, a boot does it by 'pci=disable_acs_redir={redirects}'"
    plan.warnings.append(
        f"the kernel is locked down ({pci.LOCKDOWN}), so registers stay as the firmware set them: "
        f"{', '.join(lines)}. Set them in the machine's firmware setup{remedy if redirects else ''}"
    )
    return bool(redirects)


def _numa_balancing(plan: Plan, wanted: str) -> None:
    if wanted == "keep":
        return
    seen = plan.machine.value(NUMA_BALANCING)
    if seen is None:
        if wanted == "on":
            raise Refused(
                f"pcie_numa_balancing: this kernel has none (there is no {NUMA_BALANCING}); "
                "write pcie_numa_balancing: off"
            )
        plan.notes.append(f"NUMA balancing: this kernel has none ({NUMA_BALANCING})")
    elif (seen != "0") != (wanted == "on"):  # 2 is on too: between tiers of memory
        plan.kernel_value(NUMA_BALANCING, str(int(wanted == "on")), "kernel", "numa_balancing")


def _governor(plan: Plan, wanted: str) -> None:
    if wanted == "keep":
        return
    policies = [name for name in plan.machine.names(POLICIES) if name.startswith("policy")]
    if not policies:
        plan.notes.append(f"governor: the kernel does not set frequencies ({POLICIES})")
    for name in policies:
        base = f"{POLICIES}/{name}"
        offered = (plan.machine.value(base + "/scaling_available_governors") or "").split()
        if wanted not in offered:
            raise Refused(
                f"pcie_cpu_governor: {wanted} is not one of {', '.join(offered) or 'none'} "
                f"({base}/scaling_available_governors); write one of them, or keep"
            )
        plan.kernel_value(base + "/scaling_governor", wanted, name, "frequency governor")


def _read_request(plan: Plan, rail: Rail, function: Function, wanted: int) -> None:
    device = f"{rail.name} {function.address}"
    if function.is_virtual:
        plan.notes.append(
            f"{device}: MaxReadReq: a virtual function uses that of its physical function"
        )
        return
    if function.is_paravirtual:
        plan.notes.append(f"{device}: MaxReadReq: virtio does not use it")
        return
    seen = function.read_request()
    if seen is None:
        plan.notes.append(f"{device}: MaxReadReq: the function is not PCI Express")
        return
    if seen == wanted:
        return
    _refuse_above_payload(plan.machine, device, function, wanted)
    change = Change(RUNNING, device, _READ_REQUEST, f"{seen} bytes", f"{wanted} bytes")
    plan.add(change, lambda: function.set_read_request(wanted))


def _refuse_above_payload(machine: Machine, device: str, function: Function, wanted: int) -> None:
    """Refuse to ask for more than a device takes, with MaxPayload of pci=pcie_bus_perf.

    The bridges above it may then send larger answers (Linux drivers/pci/pci.c, pcie_set_readrq).
    """
    words = (machine.value("/proc/cmdline") or "").split()
    if any("pcie_bus_perf" in word for word in words if word.startswith("pci=")):
        payload = function.payload()
        if wanted > payload:
            raise Refused(
                f"{device}: the kernel was started with pci=pcie_bus_perf, where MaxReadReq must "
                f"not be above MaxPayload, {payload}: remove that argument, or write "
                f"pcie_max_read_request_bytes: {payload}"
            )


def _redirects(plan: Plan, nics: list[Function], iommu: str) -> list[Function]:
    """Have no redirect on the bridges between GPUs, and from a GPU to NICs and NVMe drives.

    Returns these bridges.
    """
    gpus = pci.gpus(plan.machine)
    peers = [*nics, *gpus, *pci.nvme_drives(plan.machine)]
    pairs = [(gpu, peer) for gpu in gpus for peer in peers if _shared(gpu, peer)]
    if not pairs:
        plan.notes.append(
            "ACS: no GPU is below one PCIe switch with a rail, another GPU or an NVMe drive "
            "(/sys/bus/pci/devices)"
        )
        return []
    bridges = _between(pairs)
    wrong = [(bridge, bridge.redirects()) for bridge in bridges]
    if any(seen for _, seen in wrong):
        _refuse_pass_through(plan.machine)
    for bridge, seen in wrong:
        if seen:
            change = Change(RUNNING, bridge.address, _REDIRECT, " ".join(seen), "off")
            plan.add(change, bridge.redirect_off)
    if iommu == "keep":
        _warn_of_translation(plan, pairs)
    return bridges


def _shared(one: Function, other: Function) -> int:
    """Return how many bridges two functions have in common from the root; none for the same one."""
    if one.address == other.address:
        return 0
    pairs = zip(one.bridges, other.bridges)  # noqa: B905 (Python 3.8)
    return len([a for a, b in pairs if a == b])


def _between(pairs: list[tuple[Function, Function]]) -> list[Function]:
    """Return the bridges on the ways between functions that do not lead up to a root port.

    The bridge that both are below is not on the way: a switch's upstream port redirects nothing.
    """
    found: dict[str, Function] = {}
    for one, other in pairs:
        shared = _shared(one, other)
        for address in one.bridges[shared:] + other.bridges[shared:]:
            found[address] = Function(one.machine, address)
    return [found[address] for address in sorted(found)]


def _warn_of_translation(plan: Plan, pairs: list[tuple[Function, Function]]) -> None:
    """Warn of an IOMMU that translates: peers then meet at the root, whatever ACS says.

    Source: NCCL's troubleshooting guide, "PCI Access Control Services (ACS)".
    """
    modes = {each.address: each.iommu_mode for pair in pairs for each in pair}
    translated = sorted(address for address, mode in modes.items() if mode.startswith("DMA"))
    if translated:
        plan.warnings.append(
            f"ACS redirect is off, but the IOMMU translates for {', '.join(translated)} "
            f"({modes[translated[0]]}, {pci.DEVICES}/{translated[0]}/iommu_group/type): traffic "
            "between GPUs and their peers goes to the root complex, and ACS no longer keeps them "
            "apart; write pcie_iommu: passthrough, or pcie_acs_redirect: keep"
        )


def _refuse_pass_through(machine: Machine) -> None:
    for driver in _PASS_THROUGH:
        base = f"/sys/bus/pci/drivers/{driver}"
        devices = [name for name in machine.names(base) if pci.ADDRESS.fullmatch(name)]
        if devices:
            raise Refused(
                f"pcie_acs_redirect: {devices[0]} is passed through to a virtual machine ({base}), "
                "and ACS keeps its memory accesses apart; write pcie_acs_redirect: keep"
            )
