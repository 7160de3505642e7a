"""Module parameters: what is refused, configured, running, and what other files say."""

import json
import os
from pathlib import Path

import pytest
from plugins.module_utils.converge import converge
from plugins.module_utils.machine import CommandFailed, NodeError
from plugins.module_utils.roles import mlx5
from tests.roles.fake import FakeMachine
from tests.roles.mlx5_node import (
    CORE,
    IMAGE,
    KERNEL,
    arguments,
    builds,
    change_parameter,
    put_parameter,
    with_mlx5,
)
from tests.tables import cases


@pytest.fixture
def node(machine: FakeMachine) -> FakeMachine:
    return with_mlx5(machine)


def test_writable_parameter_is_set_now_and_at_boot(node: FakeMachine):
    result = converge(node, mlx5, arguments(), check=False)
    assert [(each["layer"], each["seen"], each["wanted"]) for each in result["changes"]] == [
        ("running", "0", "1"),
        ("configured", "none", "1"),
    ]
    assert result["reboot"] == []
    assert node.value(f"{CORE}/parameters/debug_mask") == "1"
    assert "options mlx5_core debug_mask=1\n" in (node.read(mlx5.OWN) or "")
    assert not builds(node)
    again = converge(node, mlx5, arguments(), check=False)
    assert (again["changed"], again["reboot"]) == (False, [])


def test_parameter_read_at_load_is_a_reason_for_a_reboot(node: FakeMachine):
    result = converge(node, mlx5, arguments({"mlx5_core": {"prof_sel": 1}}), check=False)
    assert [each["layer"] for each in result["changes"]] == ["configured"]
    assert result["reboot"] == [
        "mlx5_core prof_sel is 2, expected 1: read only when the module is loaded "
        "(/sys/module/mlx5_core/parameters/prof_sel)"
    ]
    change_parameter(node, "mlx5_core", "prof_sel", "1")  # as a boot does
    assert converge(node, mlx5, arguments({"mlx5_core": {"prof_sel": 1}}), False)["reboot"] == []


def test_module_that_is_not_loaded_is_only_configured(node: FakeMachine):
    given = arguments({"nvidia-peermem": {"peerdirect-support": 1}})
    result = converge(node, mlx5, given, check=False)
    assert [each["layer"] for each in result["changes"]] == ["configured"]
    assert "options nvidia_peermem peerdirect_support=1\n" in (node.read(mlx5.OWN) or "")


@pytest.mark.parametrize(
    ("file", "text"), cases(__file__, "other_file_that_counts_less_or_says_the_same_is_left")
)
def test_other_file_that_counts_less_or_says_the_same_is_left(node, file, text):
    node.put(file, text)
    converge(node, mlx5, arguments(), check=False)
    assert node.read(file) == text
    assert not converge(node, mlx5, arguments(), check=False)["changed"]


@pytest.mark.parametrize(
    ("module", "name", "seen", "wanted"), cases(__file__, "values_are_compared_by_meaning")
)
def test_values_are_compared_by_meaning(node, module, name, seen, wanted):
    node.put(f"/sys/module/{module}/initstate", "live\n")
    put_parameter(node, module, name, seen, 0o444)
    node.programs["modinfo -p nvidia"] = (
        "NVreg_RegistryDwords: (charp)\nNVreg_EnableStreamMemOPs: (int)\n"
        "NVreg_Sizes:Sizes, such as:\n several lines (array of int)\n"
    )
    result = converge(node, mlx5, arguments({module: {name: wanted}}), check=True)
    assert [each["layer"] for each in result["changes"]] == ["configured"]
    assert result["reboot"] == []


def test_nvidia_tells_its_parameters_without_their_prefix(node: FakeMachine):
    node.programs["modinfo -p nvidia"] = "NVreg_DmaRemapPeerMmio: (int)\n"
    node.put("/sys/module/nvidia/initstate", "live\n")
    node.put("/proc/driver/nvidia/params", 'DmaRemapPeerMmio: 1\nRegistryDwords: ""\n')
    given = arguments({"nvidia": {"NVreg_DmaRemapPeerMmio": 0}})
    (reason,) = converge(node, mlx5, given, check=False)["reboot"]
    assert "NVreg_DmaRemapPeerMmio is 1, expected 0" in reason
    assert "/proc/driver/nvidia/params" in reason


def carry(machine: FakeMachine, module: str, conf: str | None = None) -> None:
    machine.put(IMAGE, json.dumps({"modules": ["ext4", module], "conf": conf}))


def test_initramfs_that_carries_the_module_is_made_anew_once(node: FakeMachine):
    carry(node, "mlx5_core")
    result = converge(node, mlx5, arguments(), check=False)
    assert (IMAGE, "none", "options mlx5_core debug_mask=1") in [
        (each["device"], each["seen"], each["wanted"]) for each in result["changes"]
    ]
    assert len(builds(node)) == 1
    node.ran.clear()
    assert not converge(node, mlx5, arguments(), check=False)["changed"]
    assert not [line for line in node.ran if line.startswith("unmkinitramfs")]


def test_run_cut_before_the_initramfs_was_made_is_repaired(node: FakeMachine):
    carry(node, "mlx5_core")
    node.programs["update-initramfs"] = CommandFailed(["update-initramfs"], 1, "No space left")
    with pytest.raises(CommandFailed, match="No space left"):
        converge(node, mlx5, arguments(), check=False)
    (change,) = converge(node, mlx5, arguments(), check=True)["changes"]
    assert (change["device"], change["layer"]) == (IMAGE, "configured")


def test_initramfs_that_somebody_put_back_is_seen(node: FakeMachine):
    carry(node, "mlx5_core")
    converge(node, mlx5, arguments(), check=False)
    carry(node, "mlx5_core", conf="options mlx5_core debug_mask=3\n")
    os.utime(node.path(IMAGE), (1, 1))
    (change,) = converge(node, mlx5, arguments(), check=False)["changes"]
    assert change["seen"] == "options mlx5_core debug_mask=3"
    assert len(builds(node)) == 2


def test_parameter_that_is_wanted_no_more_leaves_the_initramfs_too(node: FakeMachine):
    carry(node, "mlx5_core")
    converge(node, mlx5, arguments(), check=False)
    result = converge(node, mlx5, arguments({}), check=False)
    assert [each["device"] for each in result["changes"]] == [mlx5.OWN, IMAGE]
    assert not node.exists(mlx5.OWN)
    assert json.loads(node.read(IMAGE) or "")["conf"] is None
    assert not converge(node, mlx5, arguments({}), check=False)["changed"]


def test_initramfs_is_made_or_left_as_the_site_says(node: FakeMachine):
    carry(node, "mlx5_core")
    converge(node, mlx5, arguments(initramfs="never"), check=False)
    assert not builds(node)
    node.put(IMAGE, json.dumps({"modules": ["ext4"], "conf": None}))
    converge(node, mlx5, arguments(initramfs="always"), check=False)
    assert len(builds(node)) == 1


def test_initramfs_that_does_not_take_it_is_an_error(node: FakeMachine):
    carry(node, "mlx5_core")
    node.programs["update-initramfs"] = ""
    with pytest.raises(NodeError, match=rf"not in effect: .*{IMAGE}: module options"):
        converge(node, mlx5, arguments(), check=False)


def test_dracut_does_not_write_over_the_old_file(node: FakeMachine):
    old, image = IMAGE, f"/boot/initramfs-{KERNEL}.img"
    node.remove(old)
    node.put(image, json.dumps({"modules": ["mlx5_core"], "conf": None}))
    node.programs.pop("update-initramfs")

    def dracut(argv: list[str]) -> str:
        made = json.dumps({"modules": ["mlx5_core"], "conf": node.read(mlx5.OWN)})
        Path(node.path(argv[2])).write_text(made)
        return ""

    node.programs["dracut"] = dracut
    converge(node, mlx5, arguments(), check=False)
    assert f"dracut --force {image}.rdmaprov {KERNEL}" in node.ran
    assert not node.exists(image + ".rdmaprov")
    assert mlx5.OWN in (node.read("/etc/dracut.conf.d/rdmaprov.conf") or "")


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
    assert interrupts == ("mlx5_core reload: the devices of its driver disappear, for 5 to 30 s")
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
    assert converge(node, mlx5, reloading(node), check=True)["interrupts"][1] == (
        "mlx5_core reload: NVLSM loses its connection to the NVSwitches (0000:05:00.0), so CUDA "
        "may fail (error 802), until you run: systemctl restart nvidia-fabricmanager"
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
