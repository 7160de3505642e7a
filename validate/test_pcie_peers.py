"""ACS between GPUs, from GPUs to NVMe drives, and with an IOMMU that translates."""

import pytest
from testinfra.host import Host

from rdmaprov.facts import devices, peers
from rdmaprov.facts.text import read_files
from rdmaprov.inventory import Node
from rdmaprov.validate.acs import require_acs_redirect_off
from rdmaprov.validate.verdict import Setting, not_applicable

pytestmark = pytest.mark.state

_MODES = f"{devices.PCI}/*/iommu_group/type"


def test_acs_redirect_is_off_between_gpus_and_drives(host: Host, node: Node) -> None:
    """No bridge between two GPUs, or a GPU and an NVMe drive, below one switch redirects."""
    _needs_acs_off(node)
    gpus = peers.ways_to_gpus(host)
    bridges, _ = peers.bridges(gpus, {**gpus, **peers.ways_to_drives(host)})
    if not bridges:
        not_applicable("no GPU has another GPU or an NVMe drive below the same PCIe switch")
    require_acs_redirect_off(host, node, bridges)


def test_iommu_does_not_translate_where_acs_is_off(host: Host, node: Node) -> None:
    """With ACS redirect off, the IOMMU translates for no GPU and none of its peers."""
    _needs_acs_off(node)
    if node.get("pcie_iommu") != "keep":
        not_applicable(f"pcie_iommu: {node.get('pcie_iommu')}, which test_iommu.py judges")
    gpus = peers.ways_to_gpus(host)
    others = {**gpus, **peers.ways_to_drives(host), **peers.ways_to_nics(host, node.compute_rails)}
    _, ends = peers.bridges(gpus, others)
    if not ends:
        not_applicable("no GPU has a peer below the same PCIe switch")
    files = read_files(host, _MODES)
    for address in sorted(ends):
        path = f"{devices.PCI}/{address}/iommu_group/type"
        mode = files.value(path) or ""
        if mode.startswith("DMA"):
            look = "cat /proc/cmdline; set pcie_iommu: passthrough or pcie_acs_redirect: keep"
            setting = Setting(node, address, "IOMMU mode", "pcie_iommu", path, look=look)
            setting.reject(mode, "identity, as ACS redirect is off")


def _needs_acs_off(node: Node) -> None:
    if node.get("pcie_acs_redirect") == "keep":
        not_applicable("pcie_acs_redirect: keep")
