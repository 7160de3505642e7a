"""Module parameters: what is refused, configured, running, and what other files say."""

from __future__ import annotations

import pytest
from plugins.module_utils.converge import converge
from plugins.module_utils.machine import NodeError
from plugins.module_utils.plan import NotYet, Refused
from plugins.module_utils.roles import mlx5
from tests.roles.fake import FakeMachine
from tests.roles.mlx5_node import (
    CORE,
    arguments,
    builds,
    change_parameter,
    put_parameter,
    with_mlx5,
)


@pytest.fixture
def node(machine: FakeMachine) -> FakeMachine:
    """Provide a node with mlx5_core loaded."""
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


def test_check_mode_changes_nothing(node: FakeMachine):
    assert converge(node, mlx5, arguments(), check=True)["changed"]
    assert node.value(f"{CORE}/parameters/debug_mask") == "0"
    assert not node.exists(mlx5.OWN)
    assert not node.exists("/var/lib/rdmaprov")


@pytest.mark.parametrize("lost", ["running", "configured"])
def test_each_layer_is_seen_alone(node: FakeMachine, lost: str):
    converge(node, mlx5, arguments(), check=False)
    if lost == "running":
        change_parameter(node, "mlx5_core", "debug_mask", "3")
    else:
        node.remove(mlx5.OWN)
    changes = converge(node, mlx5, arguments(), check=False)["changes"]
    assert [change["layer"] for change in changes] == [lost]


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
    ("parameters", "message"),
    [
        ({"mlx5_core": {"log_num_mtt": 24}}, "mlx5_core has no parameter log_num_mtt"),
        ({"mlx5_core": {"prof_sel": "many"}}, "prof_sel: 'many' is not a uint"),
        ({"mlx5_core": {"prof_sel": -1}}, "prof_sel: '-1' is not a uint"),
        ({"ib_core": {"netns_mode": 2}}, "netns_mode: '2' is not a bool"),
        ({"mlx5_core": {"prof_sel": [1]}}, "does not fit on a line"),
        ({"mlx5_core": {"prof_sel": "1\n2"}}, "does not fit on a line"),
        ({"mlx5_core": 1}, "mlx5_core has no parameters with values"),
        ({"mlx5_core": {"prof_sel": 1}, "mlx5-core": {"prof_sel": 2}}, "given twice"),
    ],
)
def test_wrong_input_is_refused_before_anything_is_written(
    node: FakeMachine, parameters: object, message: str
):
    with pytest.raises(Refused, match=message):
        converge(node, mlx5, arguments(parameters), check=False)
    assert not node.exists(mlx5.OWN)


def test_module_that_is_not_installed_may_come(node: FakeMachine):
    with pytest.raises(NotYet, match=r"nothing: kernel 6\.1\.0 has no such module"):
        converge(node, mlx5, arguments({"nothing": {"a": 1}}), check=True)


def test_built_in_module_is_refused(node: FakeMachine):
    node.put("/sys/module/ib_core/parameters/netns_mode", "Y\n")
    with pytest.raises(Refused, match="ib_core is built into the kernel"):
        converge(node, mlx5, arguments({"ib_core": {"netns_mode": True}}), check=True)


def test_loaded_module_that_does_not_show_a_value_is_an_error(node: FakeMachine):
    node.remove(f"{CORE}/parameters/debug_mask")
    with pytest.raises(NodeError, match="mlx5_core debug_mask: its current value is unknown"):
        converge(node, mlx5, arguments(), check=True)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("/etc/modprobe.d/zz-tuning.conf", "options mlx5-core \\\n  prof_sel=0 debug_mask=2\n"),
        ("/usr/lib/modprobe.d/zz-tuning.conf", 'options\tmlx5_core "debug_mask=2"\n'),
        ("/proc/cmdline", "quiet mlx5_core.debug_mask=2 mitigations=off\n"),
    ],
)
def test_other_file_that_counts_more_is_named(node: FakeMachine, file: str, text: str):
    node.put(file, text)
    named = "the kernel command line" if file == "/proc/cmdline" else file
    with pytest.raises(Refused, match=f"debug_mask: {named} sets 2, .*expected 1: remove it there"):
        converge(node, mlx5, arguments(), check=False)
    assert not node.exists(mlx5.OWN)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("/etc/modprobe.d/aa.conf", "options mlx5_core debug_mask=2\n"),
        ("/etc/modprobe.d/zz.conf", "options mlx5_core debug_mask=0x1\n"),
        ("/etc/modprobe.d/zz.conf.bak", "options mlx5_core debug_mask=2\n"),
    ],
)
def test_other_file_that_counts_less_or_says_the_same_is_left(
    node: FakeMachine, file: str, text: str
):
    node.put(file, text)
    converge(node, mlx5, arguments(), check=False)
    assert node.read(file) == text
    assert not converge(node, mlx5, arguments(), check=False)["changed"]


@pytest.mark.parametrize(
    ("module", "name", "seen", "wanted"),
    [
        ("ib_core", "netns_mode", "Y", True),
        ("ib_core", "netns_mode", "N", "off"),
        ("mlx5_core", "debug_mask", "3", "0x3"),
        ("mlx5_core", "debug_mask", "8", "010"),
        ("nvidia", "NVreg_RegistryDwords", "PeerMappingOverride=1;", "PeerMappingOverride=1;"),
        ("nvidia", "NVreg_EnableStreamMemOPs", "1", True),
        ("nvidia", "NVreg_Sizes", "1,16", "1,0x10"),
    ],
)
def test_values_are_compared_by_meaning(
    node: FakeMachine, module: str, name: str, seen: str, wanted: object
):
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
