"""New drivers: a restart where that is allowed and safe, and what the firmware must know first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from plugins.module_utils.converge import converge
from plugins.module_utils.machine import CommandFailed
from plugins.module_utils.plan import Refused
from plugins.module_utils.roles import ofed
from tests.roles.apt_node import AptNode, made
from tests.roles.ofed_node import arguments, devices, run

LOADED = "/sys/module/mlx5_core"
SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"


@pytest.fixture
def node(tmp_path: Path) -> AptNode:
    return made(str(tmp_path / "node"))


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
