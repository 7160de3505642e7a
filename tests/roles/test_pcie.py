"""The path between GPU and NIC: what is set, skipped, and seen in each layer."""

from pathlib import Path

import pytest
from plugins.module_utils import pci
from plugins.module_utils.converge import converge
from plugins.module_utils.machine import NodeError
from plugins.module_utils.pcie.interrupts import processors
from plugins.module_utils.plan import Refused
from plugins.module_utils.roles import pcie
from tests.roles import config_space
from tests.roles.fake import FakeMachine
from tests.roles.pcie_node import (
    BALANCING,
    DESCRIPTION,
    GOVERNOR,
    GPU,
    GPU_PORT,
    NIC,
    NIC_PORT,
    PROGRAM,
    RULE,
    SWITCH,
    UNIT,
    Node,
    arguments,
    made,
    run,
    said,
)
from tests.tables import cases


@pytest.fixture
def node(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> Node:
    return made(machine, monkeypatch)


RUNNING = [
    ("running", "kernel", "numa_balancing"),
    ("running", "policy0", "frequency governor"),
    ("running", "policy4", "frequency governor"),
    ("running", f"ens1 {NIC}", "MaxReadReq"),
    ("running", f"ens1 {NIC}", "processors of interrupt 40"),
    ("running", NIC_PORT, "ACS redirect"),
    ("running", GPU_PORT, "ACS redirect"),
]
CONFIGURED = [
    ("configured", PROGRAM, "program"),
    ("configured", DESCRIPTION, "content"),
    ("configured", UNIT, "content"),
    ("configured", "rdmaprov-pcie.service", "start at boot"),
    ("configured", RULE, "content"),
]
OF_PHYSICAL = "a virtual function uses that of its physical function"


def test_factory_node_gets_it_all_and_a_second_run_changes_nothing(node: Node):
    result = run(node)
    assert said(result) == RUNNING + CONFIGURED
    assert (node.value(BALANCING), node.value(GOVERNOR)) == ("0", "performance")
    assert (node.affinity(40), node.affinity(41)) == ("4-7", "5")
    assert (node.redirect(NIC_PORT), node.redirect(GPU_PORT)) == (0x11, 0x11)
    assert result["changes"][5]["seen"] == "ReqRedir CmpltRedir"
    assert node.redirect("0000:17:01.0") == 0x1D  # a port at the root keeps them
    assert result["reboot"] == result["notes"] == []
    assert "skipped" not in result  # Ansible would take the task for skipped
    assert not run(node)["changed"]


def test_what_the_node_does_not_have_is_skipped_with_a_reason(machine: FakeMachine):
    machine.put("/usr/bin/python3")
    machine.put("/sys/devices/system/node/node0/cpulist", "0\n")
    machine.nic("ens1")
    machine.programs = {"systemctl": ""}
    assert converge(machine, pcie, arguments(iommu="passthrough"), check=True)["notes"] == [
        "NUMA balancing: this kernel has none (/proc/sys/kernel/numa_balancing)",
        "governor: the kernel does not set frequencies (/sys/devices/system/cpu/cpufreq)",
        "ens1: it is not on PCI",
        "ACS: no GPU is below one PCIe switch with a rail, another GPU or an NVMe drive "
        "(/sys/bus/pci/devices)",
        "IOMMU: the machine shows none (/sys/class/iommu, /sys/firmware/acpi/tables)",
    ]


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({"config": "\0" * 256}, "the function is not PCI Express"),
        ({"config": "\0" * 256, "vendor": "0x1af4\n"}, "virtio does not use it"),
        ({"vendor": "0x1af4\n", "physfn/vendor": ""}, OF_PHYSICAL),
        ({"vendor": "0x15b3\n", "device": "0x101c\n"}, OF_PHYSICAL),  # as a guest sees it
    ],
)
def test_function_without_a_request_size_of_its_own_is_skipped(node, files, why):
    for name, text in files.items():
        node.put(f"/sys/devices/{SWITCH}/{NIC_PORT}/{NIC}/{name}", text)
    assert run(node)["notes"] == [f"ens1 {NIC}: MaxReadReq: {why}"]


def test_virtual_function_of_a_gpu_of_the_host_is_none(node: Node):
    assert [each.address for each in pci.gpus(node)] == [GPU]
    node.put(f"/sys/bus/pci/devices/{GPU}/physfn/vendor", "0x10de\n")
    assert pci.gpus(node) == []


@pytest.mark.parametrize(
    ("nodes", "cpulist", "reason"),
    [
        (["node0"], "0-7", "the machine has one NUMA node (/sys/devices/system/node)"),
        (["node0", "node1"], "", "its NUMA node 1 has no processors"),
    ],
)
def test_interrupts_stay_where_there_is_no_choice(node, nodes, cpulist, reason):
    for name in ("node0", "node1"):
        node.remove(f"/sys/devices/system/node/{name}/cpulist")
        Path(node.path(f"/sys/devices/system/node/{name}")).rmdir()
    for name in nodes:
        node.put(f"/sys/devices/system/node/{name}/cpulist", cpulist + "\n")
    assert run(node)["notes"] == [f"ens1 {NIC}: interrupts: {reason}"]
    assert node.affinity(40) == "0-7"


def test_nothing_is_touched_that_the_site_keeps(node: Node):
    result = run(node, acs_redirect="keep", irq_affinity="keep", cpu_governor="keep")
    assert said(result)[:2] == [RUNNING[0], RUNNING[3]]
    assert said(result)[2:] == CONFIGURED
    assert (node.redirect(GPU_PORT), node.affinity(40)) == (0x1D, "0-7")


def test_numa_balancing_between_tiers_is_on(node: Node):
    node.put(BALANCING, "2\n")
    assert said(run(node, numa_balancing="on", check=True))[0] != RUNNING[0]
    assert said(run(node, check=True))[0] == RUNNING[0]


def test_lists_of_processors():
    assert processors("0-2,8\n") == {0, 1, 2, 8}
    assert processors("") == set()


OTHER_PORT, OTHER = "0000:19:08.0", "0000:1c:00.0"


@pytest.mark.parametrize(
    ("kind", "vendor"), [("0x030200", "0x10de"), ("0x120000", "0x1002"), ("0x010802", "0x144d")]
)
def test_redirects_between_a_gpu_and_another_peer_are_off(node: Node, kind: str, vendor: str):
    """Another GPU, or an NVMe drive, below the switch of a GPU; the rail's NIC is elsewhere."""
    node.remove(f"/sys/bus/pci/devices/{NIC}")
    config_space.put(node, f"{SWITCH}/{OTHER_PORT}", config_space.made_up(acs=0x1D))
    space = config_space.made_up()
    where = f"{SWITCH}/{OTHER_PORT}/{OTHER}"
    config_space.put(node, where, space, vendor=vendor, **{"class": kind})
    node.put("/sys/class/net/ens2/mtu", "1500\n")
    rails = [{"netdev": "ens2", "pci": None, "address": "198.18.0.1/24"}]
    run(node, rails=rails)
    assert (node.redirect(GPU_PORT), node.redirect(OTHER_PORT)) == (0x11, 0x11)
    assert node.redirect(NIC_PORT) == 0x1D
    assert not run(node, rails=rails)["changed"]


def test_other_device_below_the_switch_keeps_its_redirect(node: Node):
    config_space.put(node, f"{SWITCH}/{OTHER_PORT}", config_space.made_up(acs=0x1D))
    where = f"{SWITCH}/{OTHER_PORT}/{OTHER}"
    config_space.put(node, where, config_space.made_up(), vendor="0x1000", **{"class": "0x010700"})
    run(node)
    assert node.redirect(OTHER_PORT) == 0x1D


@pytest.mark.parametrize(
    ("mode", "acs", "warns"), cases(__file__, "iommu_that_translates_is_warned_of")
)
def test_iommu_that_translates_is_warned_of(node: Node, mode: str, acs: str, *, warns: bool):
    node.put(f"/sys/bus/pci/devices/{GPU}/iommu_group/type", mode + "\n")
    said = run(node, acs_redirect=acs, check=True)["warnings"]
    assert [f"the IOMMU translates for {GPU} ({mode}" in each for each in said] == [True] * warns


GROUP = f"/sys/bus/pci/devices/{NIC}/iommu_group"
CFG = "/boot/grub/grub.cfg"


def iommu_on(node: Node, kind: str) -> None:
    node.put("/sys/class/iommu/dmar0/version", "1\n")
    node.put(f"{GROUP}/type", kind + "\n")
    node.put("/boot/vmlinuz-6.1.0")
    entry = (
        "menuentry 'x' $menuentry_id_option 'gnulinux-simple-1' {{\n linux /boot/vmlinuz-6.1.0 "
        "root=/dev/sda1 ro {}\n}}\n"
    )

    def mkconfig(argv: list[str]) -> str:
        (name,) = node.names("/etc/default/grub.d")
        drop_in = node.read(f"/etc/default/grub.d/{name}") or ""
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


def test_locked_kernel_switches_redirects_off_at_its_next_boot(node: Node):
    iommu_on(node, "identity")
    node.put("/sys/kernel/security/lockdown", "none [integrity] confidentiality\n")
    argument = f"pci=disable_acs_redir={NIC_PORT};{GPU_PORT}"
    result = run(node)
    assert [argument in each for each in result["reboot"]] == [True]
    assert argument.replace(";", "\\;") in (node.read(CFG) or "")
    assert not run(node)["changed"]
    node.put("/proc/cmdline", f"root=/dev/sda1 ro quiet {argument}\n")
    assert (run(node)["changed"], run(node)["reboot"]) == (False, [])


def cpu_flags(node: Node, *ids: int) -> None:
    node.put("/proc/cpuinfo", "".join(f"processor\t: 0\napicid\t\t: {each}\n\n" for each in ids))


def test_iommu_that_is_still_on_is_an_error(node: Node):
    iommu_on(node, "DMA")
    cpu_flags(node, 0, 254)
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


def test_iommu_mode_that_an_architecture_lacks_is_refused(node, monkeypatch):
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
    cpu_flags(node, *ids)
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
