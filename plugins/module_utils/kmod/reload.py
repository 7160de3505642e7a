"""Loading a kernel module again for parameters that it reads only then. Runs on the node."""

from __future__ import annotations

from collections.abc import Collection

from .. import busy, guard, pci
from ..machine import Machine
from ..plan import Plan
from .parameters import is_loaded

# One that is there tells the next plan that a module was unloaded and perhaps not loaded again.
# A boot loads it in any case.
UNLOADED = "/run/rdmaprov/reload"


def obstacle(machine: Machine, module: str, along: Collection[str] = ()) -> str:
    """Return what keeps a module from being loaded again without harm, empty if nothing does.

    Args:
        along: modules that are loaded again with it, and may hold it.

    Raises:
        NodeError: it is unknown.
    """
    holders = machine.names(f"/sys/module/{module}/holders")
    strange = [holder for holder in holders if holder not in along]
    if strange:
        return "{} is held by {}".format(module, ", ".join(strange))
    # Who else uses it, such as a program that has its device open.
    uses = int(machine.value(f"/sys/module/{module}/refcnt") or 0) - len(holders)
    if uses > 0:
        return f"{module} is in use (/sys/module/{module}/refcnt has {uses} besides its holders)"
    ways = guard.ways(machine)
    for netdev in machine.names("/sys/class/net"):
        if _driver(machine, netdev) == module and netdev in ways:
            return "{} is {}'s driver, and {} uses that".format(
                module, netdev, " and ".join(ways[netdev])
            )
    return busy.rdma_contexts(machine)


def takes_nvlsm(plan: Plan, what: str) -> None:
    """Say where a reload of the NICs' driver takes NVLSM's way to the NVSwitches."""
    found = ", ".join(pci.nvswitch_bridges(plan.machine))
    effect = f"NVLSM loses its connection to the NVSwitches ({found}), so CUDA may fail (error 802)"
    if found:
        plan.interrupt(what, effect, "until you run: systemctl restart nvidia-fabricmanager")


def reload(machine: Machine, module: str) -> None:
    """Load a module again, with what modprobe.d then says."""
    marker = f"{UNLOADED}/{module}"
    machine.write(marker, "")
    machine.run(["modprobe", "-r", module])
    finish(machine, module)


def finish(machine: Machine, module: str) -> None:
    """Have a module loaded after it was unloaded for a reload."""
    if not is_loaded(machine, module):
        machine.run(["modprobe", module])
    machine.remove(f"{UNLOADED}/{module}")


def _driver(machine: Machine, netdev: str) -> str:
    base = f"/sys/class/net/{netdev}/device/driver/module"
    return machine.real(base).rpartition("/")[2] if machine.exists(base) else ""
