"""On which processors a PCI function's interrupts run. Runs on the node."""

from __future__ import annotations

from ..machine import Machine, NodeError
from ..pci import Function
from ..plan import RUNNING, Change, Plan, Refused

NODES = "/sys/devices/system/node"
IRQ = "/proc/irq"


def processors(text: str) -> set[int]:
    """Return the numbers in a list of the kernel's, such as 0-3,8."""
    found: set[int] = set()
    for part in text.strip().split(",") if text.strip() else []:
        first, _, last = part.partition("-")
        if not (first.isdigit() and (last or first).isdigit()):
            raise NodeError(f"'{text.strip()}' is not a list of processors")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def local(plan: Plan, function: Function, device: str) -> None:
    """Have the function's interrupts run on its own NUMA node only.

    Those that are on some of its processors already stay there: a driver spreads them, and
    irqbalance keeps them on the NUMA node that the kernel names (placement.c, place_irq_in_node).
    """
    machine = plan.machine
    numa_nodes = [name for name in machine.names(NODES) if name[4:].isdigit()]
    if len(numa_nodes) < 2:
        plan.notes.append(f"{device}: interrupts: the machine has one NUMA node ({NODES})")
        return
    near = _near(plan, function, device)
    if not near:
        return
    wrong = [
        (number, seen)
        for number, seen in _affinities(machine, function)
        if not processors(seen) <= processors(near)
    ]
    if wrong:
        _refuse_policy(machine, device)
    for number, seen in wrong:
        _move(plan, number, device, seen, near)


def _move(plan: Plan, number: str, device: str, seen: str, near: str) -> None:
    path = f"{IRQ}/{number}/smp_affinity_list"
    change = Change(RUNNING, device, f"processors of interrupt {number}", seen, near)
    plan.add(change, lambda: plan.machine.set(path, near))


def _near(plan: Plan, function: Function, device: str) -> str:
    """Return the processors of its NUMA node, empty for a node that has none."""
    path = function.directory + "/numa_node"
    numa_node = plan.machine.value(path)
    if numa_node is None:
        raise NodeError(f"{device}: its NUMA node is unknown: there is no {path}")
    if numa_node == "-1":
        raise Refused(
            f"{device}: the firmware does not say on which NUMA node it is ({path} is -1); "
            "correct this in its setup, or write pcie_irq_affinity: keep"
        )
    near = plan.machine.value(f"{NODES}/node{numa_node}/cpulist")
    if near is None:
        raise NodeError(f"{device}: there is no {NODES}/node{numa_node}/cpulist")
    if not near:
        plan.notes.append(f"{device}: interrupts: its NUMA node {numa_node} has no processors")
    return near


def _affinities(machine: Machine, function: Function) -> list[tuple[str, str]]:
    """Return its interrupts, each with the processors that it may run on."""
    numbers = machine.names(function.directory + "/msi_irqs")
    if not numbers:
        number = machine.value(function.directory + "/irq") or "0"
        numbers = [number] if number != "0" else []
    found = []
    for number in sorted(numbers, key=int):
        seen = machine.value(f"{IRQ}/{number}/smp_affinity_list")
        if seen is not None:  # given back meanwhile
            found.append((number, seen))
    return found


def _refuse_policy(machine: Machine, device: str) -> None:
    """Refuse an irqbalance with a policy of its own, which may have moved them and would again."""
    for process in machine.names("/proc"):
        if not process.isdigit() or machine.value(f"/proc/{process}/comm") != "irqbalance":
            continue
        words = (machine.read(f"/proc/{process}/cmdline") or "").split("\0")
        for word in words:
            if word.startswith(("--policyscript", "-l")):
                raise Refused(
                    f"{device}: its interrupts are on another NUMA node, and irqbalance runs with "
                    f"{word} (process {process}), which controls them; remove that option, or "
                    "write pcie_irq_affinity: keep"
                )
