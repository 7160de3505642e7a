"""What a cut installation or removal of the RDMA drivers left is repaired."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from plugins.module_utils.converge import converge
from plugins.module_utils.machine import CommandFailed, NodeError
from plugins.module_utils.plan import Refused
from plugins.module_utils.roles import ofed
from tests.roles.apt_node import KERNEL, KERNEL_DKMS, AptNode
from tests.roles.ofed_node import STALE, arguments, devices, run


@pytest.fixture
def node(tmp_path: Path) -> AptNode:
    return AptNode.made(tmp_path / "node")


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
        "openibd restart: all RDMA devices and their links go away, for 10 to 60 s"
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
