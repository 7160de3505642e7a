"""The IOMMU's mode: described for a boot, and proven after it."""

from __future__ import annotations

from pathlib import Path

import pytest
from plugins.module_utils.machine import NodeError
from plugins.module_utils.plan import Refused
from plugins.module_utils.roles import pcie
from tests.roles.fake import FakeMachine
from tests.roles.pcie_node import NIC, Node, made, run, said

GROUP = f"/sys/bus/pci/devices/{NIC}/iommu_group"
CFG = "/boot/grub/grub.cfg"


@pytest.fixture
def node(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> Node:
    return made(machine, monkeypatch)


def iommu_on(node: Node, kind: str) -> None:
    node.put("/sys/class/iommu/dmar0/version", "1\n")
    node.put(f"{GROUP}/type", kind + "\n")
    node.put("/boot/vmlinuz-6.1.0")
    entry = (
        "menuentry 'x' $menuentry_id_option 'gnulinux-simple-1' {{\n linux /boot/vmlinuz-6.1.0 "
        "root=/dev/sda1 ro {}\n}}\n"
    )

    def mkconfig(argv: list[str]) -> str:
        drop_in = node.read("/etc/default/grub.d/zz-rdmaprov-pcie.cfg") or '="quiet"'
        words = drop_in.partition('="')[2].replace("$GRUB_CMDLINE_LINUX_DEFAULT", "quiet")
        Path(argv[2]).write_text(entry.format(words.partition('"')[0]))
        return ""

    node.put(CFG, entry.format("quiet"))
    node.programs["grub-mkconfig -o"] = mkconfig


def test_iommu_mode_waits_for_a_boot_and_is_then_proven(node: Node):
    iommu_on(node, "DMA")
    result = run(node, iommu="passthrough")
    assert result["reboot"] == ["the running kernel has '', expected 'iommu=pt' (/proc/cmdline)"]
    assert ("configured", CFG, "kernel arguments") in said(result)
    again = run(node, iommu="passthrough")
    assert (again["changed"], len(again["reboot"])) == (False, 1)
    node.put("/proc/cmdline", "root=/dev/sda1 ro quiet iommu=pt\n")
    with pytest.raises(NodeError, match=r"its IOMMU mode is DMA, expected identity"):
        run(node, iommu="passthrough")
    node.put(f"{GROUP}/type", "identity\n")
    after = run(node, iommu="passthrough")
    assert (after["changed"], after["reboot"]) == (False, [])


def processors(node: Node, *ids: int) -> None:
    node.put("/proc/cpuinfo", "".join(f"processor\t: 0\napicid\t\t: {each}\n\n" for each in ids))


def test_iommu_that_is_still_on_is_an_error(node: Node):
    iommu_on(node, "DMA")
    processors(node, 0, 254)
    run(node, iommu="off")
    node.put("/proc/cmdline", "root=/dev/sda1 ro quiet iommu=off\n")
    with pytest.raises(NodeError, match=r"running kernel has iommu=off, but dmar0 is on"):
        run(node, iommu="off")


def test_iommu_mode_that_cannot_be_told_is_an_error(node: Node):
    iommu_on(node, "identity")
    run(node, iommu="passthrough")
    node.put("/proc/cmdline", "root=/dev/sda1 ro quiet iommu=pt\n")
    node.remove(f"{GROUP}/type")
    with pytest.raises(NodeError, match="its IOMMU mode is unknown"):
        run(node, iommu="passthrough")


def test_iommu_mode_that_an_architecture_lacks_is_refused(
    node: Node, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(pcie, "architecture", lambda: "aarch64")
    with pytest.raises(Refused, match="no argument for off on aarch64; write keep"):
        run(node, iommu="off")


def test_iommu_that_the_firmware_has_counts_where_the_kernel_leaves_it_off(node: Node):
    iommu_on(node, "DMA")
    node.remove("/sys/class/iommu/dmar0/version")
    Path(node.path("/sys/class/iommu/dmar0")).rmdir()
    assert run(node, iommu="passthrough", check=True)["reboot"] == []
    node.put("/sys/firmware/acpi/tables/DMAR")
    assert len(run(node, iommu="passthrough", check=True)["reboot"]) == 1


@pytest.mark.parametrize(
    ("ids", "why"),
    [
        ((0, 1, 255), "3 processors with APIC ids up to 255"),
        ((0, 511), "need x2APIC, which needs the IOMMU's interrupt remapping"),
        ((), "shows no apicid"),
    ],
)
def test_iommu_that_processors_need_is_not_switched_off(node: Node, ids: tuple[int], why: str):
    iommu_on(node, "DMA")
    processors(node, *ids)
    with pytest.raises(Refused, match=why):
        run(node, iommu="off")
    assert run(node, iommu="passthrough", check=True)["reboot"]
    # It runs so already, with all of them.
    node.put("/proc/cmdline", "root=/dev/sda1 ro quiet iommu=off\n")
    node.remove("/sys/class/iommu/dmar0/version")
    node.remove(f"{GROUP}/type")
    for directory in ("/sys/class/iommu/dmar0", GROUP):
        Path(node.path(directory)).rmdir()
    assert run(node, iommu="off", check=True)["reboot"] == []
