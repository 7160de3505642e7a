"""IOMMU mode: on the kernel command line, of the rails' groups, after a reboot."""

import pytest
from testinfra.host import Host

from rdmaprov.facts import boot, devices, lower_ports, pci
from rdmaprov.facts.text import read_files
from rdmaprov.inventory import Node, Rail
from rdmaprov.validate.verdict import AFTER_REBOOT, Setting, not_applicable, reboot

pytestmark = pytest.mark.state

# Linux Documentation/admin-guide/kernel-parameters.txt
_ARGUMENTS = {"passthrough": ("iommu=pt", "iommu.passthrough=1"), "off": ("iommu=off",)}
_NAMES = ("iommu", "iommu.passthrough")


def test_iommu_mode_running(host: Host, node: Node) -> None:
    """The kernel was booted with the site's IOMMU mode."""
    wanted = _wanted(host, node)
    seen = boot.read(host).running
    if not set(seen.arguments(_NAMES)) & set(wanted):
        Setting(
            node, "kernel", "command line", "pcie_iommu", where=seen.file, fix=reboot(node)
        ).reject(seen.arguments(_NAMES), " or ".join(wanted))


def test_iommu_mode_of_the_rail_running(host: Host, node: Node, rail: Rail) -> None:
    """The IOMMU group of the rail's NIC has the site's mode, whatever the kernel's arguments."""
    _wanted(host, node)
    for port in lower_ports.read(host, rail):
        path = f"{devices.PCI}/{port.pci}/iommu_group/type"
        seen = read_files(host, path).value(path) if port.pci else None
        if seen is None:
            not_applicable(
                f"rail {rail.index} is in no IOMMU group, so nothing translates its addresses"
            )
        Setting(node, port.pci, "IOMMU mode", "pcie_iommu", where=path, fix=reboot(node)).require(
            seen, "identity"
        )


def test_iommu_mode_after_reboot(host: Host, node: Node) -> None:
    """Each kernel that may boot next gets the site's IOMMU mode."""
    wanted = _wanted(host, node)
    for entry in boot.read(host).entries:
        if not set(entry.arguments(_NAMES)) & set(wanted):
            name = "command line"
            setting = Setting(node, entry.kernel, name, "pcie_iommu", entry.file, AFTER_REBOOT)
            setting.reject(entry.arguments(_NAMES), " or ".join(wanted))


def _wanted(host: Host, node: Node) -> tuple[str, ...]:
    wanted = node.get("pcie_iommu")
    if wanted == "keep":
        not_applicable("pcie_iommu: keep")
    if not pci.has_iommu(host):
        not_applicable("the node has no IOMMU (/sys/class/iommu, ACPI tables)")
    return _ARGUMENTS[wanted]
