"""The path between GPU and NIC: PCIe, IOMMU, interrupts, processors. Runs on the node."""

from __future__ import annotations

from typing import Any

from .. import pci
from ..machine import Machine
from ..pcie import boot, iommu, running
from ..plan import Plan
from ..rails import find


def plan(machine: Machine, arguments: dict[str, Any]) -> Plan:
    """Return what must change for the path to be clear, now and after a boot.

    The running kernel first: what it does not take never gets into a file that a boot reads.
    """
    plan = Plan(machine)
    rails = find(machine, arguments["rails"])
    running.add(plan, rails, arguments)
    boot.at_boot(plan, arguments, rails)
    found = [function for rail in rails for function in pci.of_rail(machine, rail)]
    iommu.mode(plan, arguments["iommu"], found)
    return plan
