"""The RDMA drivers: flavours, versions, kernels, holds, and what runs."""

from pathlib import Path
from typing import Any

import pytest
from plugins.module_utils.converge import converge
from plugins.module_utils.machine import CommandFailed, NodeError
from plugins.module_utils.packages.apt import Apt
from plugins.module_utils.plan import Refused
from plugins.module_utils.roles import ofed
from tests.roles.apt_node import DOCA, KERNEL, KERNEL_DKMS, AptNode
from tests.roles.ofed_node import KEY, STALE, arguments, devices, run


@pytest.fixture
def node(tmp_path: Path) -> AptNode:
    return AptNode.made(tmp_path / "node")


def test_factory_node_gets_the_vendors_drivers(node: AptNode):
    result = run(node)
    assert devices(result) == [Apt.key_file, Apt.repository_file, "doca-ofed"]
    assert [each.partition(":")[0] for each in result["interrupts"]] == ["RDMA drivers"]
    assert result["reboot"] == []
    assert node.packages["doca-ofed"] == ("ii", "3.1.0-091513")
    lines = (node.read(Apt.repository_file) or "").splitlines()
    assert lines[1:] == [f"# Signed by {KEY}", f"deb [signed-by={Apt.key_file}] {DOCA} ./"]
    assert node.holds == {
        "doca-ofed",
        KERNEL_DKMS,
        "ofed-scripts",
        "rdma-core",
        "linux-image-amd64",
        f"linux-headers-{KERNEL}",
    }
    assert node.said("update-initramfs -u -k", KERNEL)
    assert not node.exists(STALE)
    assert not run(node)["changed"]


def test_factory_node_has_the_kernels_own_drivers(node: AptNode):
    assert not run(node, "inbox")["changed"]
    assert not node.holds


@pytest.mark.parametrize("source", ["inbox", "keep"])
def test_lost_tool_is_installed_where_no_vendor_is(node: AptNode, source: str):
    del node.packages["rdma-core"]
    result = run(node, source)
    assert [change["seen"] for change in result["changes"]] == ["absent: rdma-core"]
    assert result["interrupts"] == []
    assert node.packages["rdma-core"] == ("ii", "44.0-2")
    assert not run(node, source)["changed"]


def test_tool_that_no_repository_has_is_named(node: AptNode):
    del node.packages["perftest"]
    with pytest.raises(Refused, match="perftest: no repository of the node has it"):
        run(node, "inbox")


def test_bluefield_gets_what_reads_its_mode(node: AptNode):
    node.put("/sys/bus/pci/devices/0000:1a:00.0/device", "0xa2dc\n")
    (change,) = converge(node, ofed, arguments("inbox"), check=True)["changes"]
    assert change["seen"] == "absent: mstflint"


def test_other_flavour_is_removed_first(node: AptNode):
    run(node, "mlnx_ofed")
    node.ran.clear()
    assert run(node)["changes"][-1]["seen"] == "mlnx_ofed"
    removed, installed = node.said(" remove ")[0], node.said(" install ", "doca-ofed=3.1.0")[-1]
    assert node.ran.index(removed) < node.ran.index(installed)
    assert f"mlnx-ofed-all {KERNEL_DKMS} ofed-scripts" in removed
    assert "rdma-core=2507mlnx58-1.2507097" in installed
    assert "mlnx-ofed-all" not in node.packages
    assert not run(node)["changed"]


@pytest.mark.parametrize("source", ["doca", "mlnx_ofed"])
def test_keep_leaves_a_vendors_drivers(node: AptNode, source: str):
    run(node, source)
    packages, holds = dict(node.packages), set(node.holds)
    result = run(node, "keep")
    assert not result["changed"]
    assert source in result["notes"][0]
    assert (node.packages, node.holds) == (packages, holds)
    assert node.exists(Apt.repository_file)


def test_keep_leaves_a_vendors_drivers_that_no_package_brought(node: AptNode):
    node.programs["ofed_info"] = "MLNX_OFED_LINUX-24.10-1.1.4.0:\n"
    result = run(node, "keep")
    assert (result["changed"], result["notes"]) == (
        False,
        ["RDMA drivers: mlnx_ofed 24.10-1.1.4.0 stays (ofed_source: keep)"],
    )


def test_way_back_to_the_kernels_own_drivers(node: AptNode):
    run(node)
    result = run(node, "inbox")
    assert "doca" in [change["seen"] for change in result["changes"]]
    assert [each.partition(":")[0] for each in result["interrupts"]] == ["RDMA drivers"]
    assert not {"doca-ofed", KERNEL_DKMS, "ofed-scripts"} & set(node.packages)
    assert node.packages["rdma-core"] == ("ii", "44.0-2")
    assert not node.exists(Apt.repository_file)
    assert not node.exists(Apt.key_file)
    assert not node.holds
    assert not node.exists("/var/lib/rdmaprov/ofed-holds.json")
    assert not run(node, "inbox")["changed"]


def test_package_that_would_go_along_stops_it(node: AptNode):
    run(node)
    node.packages["lustre-client"] = ("ii", "2.15")
    node.dependents["lustre-client"] = KERNEL_DKMS
    with pytest.raises(Refused, match="lustre-client would also be removed"):
        run(node, "inbox")
    assert node.packages["doca-ofed"] == ("ii", "3.1.0-091513")


@pytest.mark.parametrize(
    ("lose", "device"),
    [
        (lambda node: node.remove(Apt.key_file), Apt.key_file),
        (
            lambda node: node.put(Apt.repository_file, "deb [trusted=yes] http://x ./\n"),
            Apt.repository_file,
        ),
        (lambda node: node.packages.update({"doca-ofed": ("ii", "3.1.01-1")}), "doca-ofed"),
        (lambda node: node.packages.pop("doca-ofed"), "doca-ofed"),
        (lambda node: node.remove(f"/lib/modules/{KERNEL}/build/Makefile"), "doca-ofed"),
        (lambda node: next(iter(node.dkms.values())).clear(), f"kernel {KERNEL}"),
        (lambda node: node.holds.discard(KERNEL_DKMS), "packages"),
        (lambda node: node.put(STALE), "initramfs"),
        (
            lambda node: node.packages.update({"ofed-scripts": ("iU", "25.07.OFED.25-1")}),
            "packages",
        ),
    ],
)
def test_each_part_is_seen_alone(node: AptNode, lose: Any, device: str):
    run(node)
    lose(node)
    assert devices(run(node)) == [device]
    assert not run(node)["changed"]


def test_own_hold_of_an_administrator_stays(node: AptNode):
    node.holds = {"linux-image-amd64", "vim"}
    run(node)
    run(node, hold=False)
    assert node.holds == {"linux-image-amd64", "vim"}


def test_ofed_without_packages_is_uninstalled(node: AptNode):
    node.programs["ofed_info"] = "MLNX_OFED_LINUX-5.8-2.0.3.0:"
    with pytest.raises(Refused, match=r"ofed_info shows mlnx_ofed 5.8-2.0.3.0, but neither"):
        run(node, "inbox")

    def uninstall(argv: list[str]) -> str:
        assert argv[1:] == ["--force"]
        del node.programs["ofed_info"]
        return ""

    node.programs["ofed_uninstall.sh"] = uninstall
    assert run(node, "inbox")["changed"]
    assert node.said("ofed_uninstall.sh --force")


def test_tools_of_another_version_than_the_packages_are_refused(node: AptNode):
    run(node, "mlnx_ofed")
    node.programs["ofed_info"] = "MLNX_OFED_LINUX-5.8-2.0.3.0:"
    with pytest.raises(Refused, match=r"says mlnx_ofed 5.8-2.0.3.0, expected mlnx_ofed 24.10"):
        run(node, "mlnx_ofed")


def test_driver_that_no_package_brought_is_refused(node: AptNode):
    node.dkms["24.10.OFED.24.10.1.1.4.1"] = {KERNEL}
    with pytest.raises(
        Refused, match=r"mlx5_core is /lib/modules/.*/updates/dkms/mlx5_core.ko, not"
    ):
        run(node, "inbox")


@pytest.mark.parametrize("firmware", ["keep", "update"])
def test_firmware_that_burns_is_announced(node: AptNode, firmware: str):
    result = converge(node, ofed, arguments(firmware=firmware), check=True)
    said = [each for each in result["interrupts"] if "mlnx-fw-updater burns" in each]
    assert bool(said) is (firmware == "update")


@pytest.mark.parametrize("headers", [False, True])
def test_installation_that_was_cut_is_repaired(node: AptNode, headers: bool):
    if headers:
        node.put(f"/lib/modules/{KERNEL}/build/Makefile")
    node.cut = True
    with pytest.raises(NodeError, match="Killed"):
        run(node)
    halfway = "doca-ofed" if headers else f"linux-headers-{KERNEL}"
    assert node.packages[halfway][0] == "iU"
    assert node.exists(STALE)
    node.cut = False
    assert run(node)["changes"][0]["seen"].startswith("halfway: ")
    assert node.packages["doca-ofed"] == ("ii", "3.1.0-091513")
    assert not node.exists(STALE)
    assert not run(node)["changed"]


def test_package_cut_in_its_files_that_is_to_go_goes(node: AptNode):
    run(node)
    node.packages[KERNEL_DKMS] = ("iHR", "25.07")
    run(node, "inbox")
    assert node.said(f"dpkg --force-remove-reinstreq --force-depends --purge {KERNEL_DKMS}")
    assert not run(node, "inbox")["changed"]


def test_journal_of_dpkg_that_was_cut_is_ended(node: AptNode):
    node.put("/var/lib/dpkg/updates/0002")
    configure = node._configure

    def end(argv: list[str]) -> str:
        node.remove("/var/lib/dpkg/updates/0002")
        return configure(argv)

    node.programs["env DEBIAN_FRONTEND=noninteractive dpkg --configure -a"] = end
    result = run(node, "inbox")
    assert [each["seen"] for each in result["changes"]] == ["halfway: the manager's own journal"]
    assert not run(node, "inbox")["changed"]


def test_headers_that_do_not_come_with_their_package_are_named(node: AptNode):
    node.no_link = True
    with pytest.raises(NodeError, match=rf"linux-headers-{KERNEL} is installed, but /lib/modules"):
        run(node)
    assert "doca-ofed" not in node.packages


def test_removal_that_was_cut_is_repaired(node: AptNode):
    run(node, "mlnx_ofed")
    del node.packages["mlnx-ofed-all"]  # and no more
    run(node)
    assert node.packages["doca-ofed"][0] == "ii"
    assert node.packages[KERNEL_DKMS][1].startswith("25.07")
    assert not run(node)["changed"]


LOADED = "/sys/module/mlx5_core"
SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"


def test_driver_of_before_that_runs_is_a_reason_for_a_reboot(node: AptNode):
    node.load("")
    result = run(node)
    wanted = (
        "mlx5_core: version none runs, 25.07.0.9.7.1 is installed (/sys/module/mlx5_core/version)"
    )
    assert result["reboot"] == [wanted]
    node.load("25.07.0.9.7.1")
    assert run(node)["reboot"] == []


def restarted(node: AptNode) -> str:
    node.load("25.07.0.9.7.1")
    return ""


def openibd(node: AptNode) -> None:
    """Have what restarts the drivers, on a node that is used over another device."""
    node.put("/etc/init.d/openibd")
    node.programs["/etc/init.d/openibd"] = lambda _: restarted(node)
    node.programs["ip -j -4 route show default"] = '[{"dst":"default","dev":"eno1"}]'
    node.programs["ip -j -6 route show default"] = ""
    node.nic("ens1", "0000:01:00.0", "mlx5_0")
    node.link("/sys/devices/pci0000:00/0000:01:00.0/driver/module", LOADED)
    node.programs["rdma -j resource show"] = '[{"ifname":"mlx5_0","ctx":0,"cm_id":0}]'


def test_drivers_are_restarted_where_that_is_allowed(node: AptNode):
    node.load("")
    openibd(node)
    result = run(node, restart="if-needed")
    assert result["reboot"] == []
    assert result["interrupts"][-1] == (
        "openibd restart: all RDMA devices and their links disappear, for 10 to 60 s"
    )
    assert node.said("/etc/init.d/openibd restart")
    assert not run(node, restart="if-needed")["changed"]


@pytest.mark.parametrize(
    ("use", "why"),
    [
        (lambda node: node.put(f"{LOADED}/holders/ko2iblnd"), "mlx5_core is held by ko2iblnd"),
        (lambda node: node.put(f"{LOADED}/refcnt", "2\n"), "refcnt has 2 besides its holders"),
        (
            lambda node: node.programs.update(
                {"rdma -j resource show": '[{"ifname":"mlx5_0","ctx":3}]'}
            ),
            "3 contexts",
        ),
        (
            lambda node: node.programs.update(
                {"ip -j -4 route show default": '[{"dst":"default","dev":"ens1"}]'}
            ),
            "mlx5_core is ens1's driver, and the default gateway uses that",
        ),
        (lambda node: node.remove("/etc/init.d/openibd"), "there is no /etc/init.d/openibd"),
    ],
)
def test_drivers_in_use_are_not_restarted(node: AptNode, use: Any, why: str):
    node.load("")
    openibd(node)
    use(node)
    result = run(node, restart="if-needed")
    assert len(result["reboot"]) == 1
    assert "; not restarted: " in result["reboot"][0]
    assert why in result["reboot"][0]
    assert not node.said("openibd restart")


def test_restart_that_was_cut_is_finished(node: AptNode):
    run(node)
    openibd(node)
    node.put("/run/rdmaprov/openibd")
    assert devices(run(node)) == ["openibd"]
    assert node.said("/etc/init.d/openibd restart")
    assert not run(node)["changed"]


def test_secure_boot_without_a_key_is_refused_before_anything(node: AptNode):
    node.put(SECURE_BOOT, "\x06\0\0\0\x01")
    with pytest.raises(Refused, match=r"Secure Boot is on.*dkms generate_mok.*mokutil --import"):
        converge(node, ofed, arguments(), check=True)
    node.put(SECURE_BOOT, "\x06\0\0\0\x00")
    assert converge(node, ofed, arguments(), check=True)["changed"]


@pytest.mark.parametrize("path", ["/var/lib/dkms/mok.pub", "/var/lib/shim-signed/mok/MOK.der"])
def test_key_that_the_firmware_does_not_know_is_refused(node: AptNode, path: str):
    node.put("/sys/kernel/security/lockdown", "none [integrity] confidentiality\n")
    node.put(path)
    node.programs["mokutil --test-key"] = f"{path} is not enrolled"
    with pytest.raises(Refused, match=rf"locked down.*signed with {path}, which the firmware"):
        run(node)
    known = CommandFailed(["mokutil"], 1, f"{path} is already enrolled")
    node.programs["mokutil --test-key"] = known
    assert run(node)["changed"]
