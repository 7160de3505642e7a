"""The reload of mlx5_core: where it is allowed, what prevents it, and what a cut one left."""

from __future__ import annotations

from pathlib import Path

import pytest
from plugins.module_utils.converge import converge
from plugins.module_utils.machine import CommandFailed
from plugins.module_utils.roles import mlx5
from tests.roles.fake import FakeMachine
from tests.roles.mlx5_node import CORE, arguments, change_parameter, with_mlx5


@pytest.fixture
def node(machine: FakeMachine) -> FakeMachine:
    """Provide a node with mlx5_core loaded."""
    return with_mlx5(machine)


def reloading(node: FakeMachine) -> dict[str, object]:
    def load(argv: list[str]) -> str:
        here, away = Path(node.path(CORE)), Path(node.path("/unloaded"))
        if "-r" in argv:
            here.rename(away)
            return ""
        away.rename(here)
        change_parameter(node, "mlx5_core", "prof_sel", "1")
        return ""

    node.programs["modprobe"] = load
    return arguments({"mlx5_core": {"prof_sel": 1}}, reload="if-needed")


def test_module_is_reloaded_where_that_is_allowed(node: FakeMachine):
    result = converge(node, mlx5, reloading(node), check=False)
    assert result["reboot"] == []
    (interrupts,) = result["interrupts"]
    assert interrupts == ("mlx5_core reload: the devices of its driver go away, for 5 to 30 s")
    assert [line for line in node.ran if line.startswith("modprobe")] == [
        "modprobe -r mlx5_core",
        "modprobe mlx5_core",
    ]
    assert not converge(node, mlx5, reloading(node), check=False)["changed"]


def test_reload_that_takes_nvlsms_way_says_so(node: FakeMachine):
    """On HGX B200 and later, NICs of the GPU baseboard lead to the NVSwitches."""
    devices = "/sys/bus/pci/devices"
    for address in ("0000:05:00.0", "0000:18:00.0"):
        node.put(f"{devices}/{address}/vendor", "0x15b3\n")
    node.put(f"{devices}/0000:05:00.0/vpd", "\x02\x00SMDL=SW_MNG")
    node.put(f"{devices}/0000:18:00.0/vpd", "\x02\x00ConnectX-7")
    said = converge(node, mlx5, reloading(node), check=True)["interrupts"]
    assert said[1] == (
        "mlx5_core reload: NVLSM loses its way to the NVSwitches (0000:05:00.0), so CUDA may fail "
        "(error 802), until you run: systemctl restart nvidia-fabricmanager"
    )
    node.put(f"{devices}/0000:05:00.0/vpd", "ConnectX-7")
    assert len(converge(node, mlx5, reloading(node), check=True)["interrupts"]) == 1


def put_netdev(node: FakeMachine) -> None:
    node.nic("eno1", pci="0000:01:00.0")
    node.link("/sys/devices/pci0000:00/0000:01:00.0/driver/module", CORE)


@pytest.mark.parametrize(
    ("use", "why"),
    [
        (lambda node: node.put(f"{CORE}/holders/mlx5_ib"), "mlx5_core is held by mlx5_ib"),
        (lambda node: node.put(f"{CORE}/refcnt", "2\n"), "mlx5_core is in use"),
        (put_netdev, "eno1's driver, and the default gateway uses that"),
    ],
)
def test_module_in_use_is_left_and_a_reboot_due(node: FakeMachine, use, why: str):
    use(node)
    (reason,) = converge(node, mlx5, reloading(node), check=False)["reboot"]
    assert why in reason
    assert not [line for line in node.ran if line.startswith("modprobe")]


def test_module_is_left_while_a_program_uses_rdma(node: FakeMachine):
    node.nic("ens1", rdma="mlx5_0")
    node.programs["rdma -j resource show"] = '[{"ifname":"mlx5_0","cm_id":0,"ctx":2,"qp":5}]'
    (reason,) = converge(node, mlx5, reloading(node), check=False)["reboot"]
    assert "not reloaded: mlx5_0 is in use (2 contexts, 0 connections)" in reason


def test_reload_that_was_cut_is_finished(node: FakeMachine):
    given = reloading(node)
    load = node.programs["modprobe"]
    node.programs["modprobe mlx5_core"] = CommandFailed(["modprobe"], 1, "killed")
    with pytest.raises(CommandFailed, match="killed"):
        converge(node, mlx5, given, check=False)
    assert not node.exists(f"{CORE}/initstate")
    node.programs["modprobe mlx5_core"] = load
    (change,) = converge(node, mlx5, given, check=False)["changes"]
    assert (change["setting"], change["seen"]) == ("reload", "interrupted")
    assert node.exists(f"{CORE}/initstate")
    assert not converge(node, mlx5, given, check=False)["changed"]
