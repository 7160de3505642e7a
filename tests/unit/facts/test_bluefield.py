"""Role and suite agree on who owns a BlueField's ports, and neither is sure of what is not said."""

from pathlib import Path

import pytest
from plugins.module_utils import bluefield as role
from plugins.module_utils import nic_firmware
from plugins.module_utils.machine import CommandFailed, NodeError
from plugins.module_utils.plan import Plan, Refused
from tests.roles.fake import FakeMachine

from rdmaprov.facts import bluefield as suite
from rdmaprov.facts import firmware

ADDRESS = "0000:18:00.0"
# Columns as in tests/fixtures/mstconfig; names and values as in NVIDIA's "Modes of Operation".
HEAD = "Configurations:                       Default          Current          Next Boot\n"


def query(model: str, engine: str, following: str = "") -> str:
    rows = [
        ("INTERNAL_CPU_MODEL", model, model),
        ("INTERNAL_CPU_OFFLOAD_ENGINE", engine, following),
    ]
    return HEAD + "".join(
        f"*        {name:36} {now:16} {now:16} {after or now}\n" for name, now, after in rows if now
    )


MODES = {
    "DPU": (query("EMBEDDED_CPU(1)", "ENABLED(0)"), False),
    "NIC": (query("EMBEDDED_CPU(1)", "DISABLED(1)"), True),
    "separated host": (query("SEPARATED_HOST(0)", "ENABLED(0)"), True),
    "NIC after a power cycle": (query("EMBEDDED_CPU(1)", "ENABLED(0)", "DISABLED(1)"), False),
    "no engine": (query("EMBEDDED_CPU(1)", ""), None),
    "no model": (query("", "ENABLED(0)"), None),
    "neither": (HEAD, None),
    "not shown": (query("N/A", "N/A"), None),
}


@pytest.mark.parametrize("mode", MODES)
def test_role_and_suite_read_the_same(mode: str):
    text, owns = MODES[mode]
    assert role.host_owns(nic_firmware.parse(text)) is owns
    assert suite.host_owns(firmware.parse(text)) is owns


@pytest.fixture
def node(tmp_path: Path) -> FakeMachine:
    made = FakeMachine(tmp_path / "node")
    made.nic("ens1", ADDRESS, "mlx5_0")
    made.put(f"/sys/bus/pci/devices/{ADDRESS}/vendor", "0x15b3\n")
    made.put(f"/sys/bus/pci/devices/{ADDRESS}/device", "0xa2dc\n")
    return made


@pytest.mark.parametrize(
    ("mode", "error", "says"),
    [
        ("DPU", Refused, "ens1: 0000:18:00.0 is a BlueField in DPU mode"),
        ("NIC after a power cycle", Refused, "in DPU mode"),
        ("neither", NodeError, "does not show whether it is in DPU mode"),
    ],
)
def test_role_refuses_ports_that_are_not_the_host_s(node, mode, error, says):
    node.programs[f"mstconfig -d {ADDRESS} -e query"] = MODES[mode][0]
    with pytest.raises(error, match=says):
        role.require_host_owns(Plan(node), ["ens1"])


def test_role_refuses_what_it_cannot_ask(node: FakeMachine):
    with pytest.raises(NodeError, match=r"without mstconfig .* unknown whether it is in DPU mode"):
        role.require_host_owns(Plan(node), ["ens1"])
    node.programs["mstconfig -d"] = CommandFailed(["mstconfig"], 3, "-E- Failed to open the device")
    with pytest.raises(NodeError, match=r"unknown whether it is in DPU mode: .*Failed to open"):
        role.require_host_owns(Plan(node), ["ens1"])


def test_role_says_where_a_locked_kernel_keeps_the_tool_away(node: FakeMachine):
    node.put("/sys/kernel/security/lockdown", "none [integrity] confidentiality\n")
    node.programs["mstconfig -d"] = CommandFailed(["mstconfig"], 3, "-E- Failed to open the device")
    plan = Plan(node)
    role.require_host_owns(plan, ["ens1"])
    assert "modes are unknown (ens1 0000:18:00.0): the kernel is locked" in plan.warnings[0]
    node.programs["mstconfig -d"] = MODES["DPU"][0]  # it gets there by a driver that is signed
    with pytest.raises(Refused, match="in DPU mode"):
        role.require_host_owns(plan, ["ens1"])


def test_role_takes_nic_mode_and_asks_no_other_card(node: FakeMachine):
    node.programs[f"mstconfig -d {ADDRESS} -e query"] = MODES["NIC"][0]
    role.require_host_owns(Plan(node), ["ens1"])
    assert len(node.ran) == 1
    node.put(f"/sys/bus/pci/devices/{ADDRESS}/device", "0x1021\n")
    role.require_host_owns(Plan(node), ["ens1"])
    assert len(node.ran) == 1
