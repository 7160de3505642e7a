"""Lossless RoCE on a node: set, proven, and set again at a boot by files, a unit and a program."""

import subprocess
import sys
from pathlib import Path

import pytest
from plugins.module_utils import shipped
from plugins.module_utils.machine import NodeError
from plugins.module_utils.plan import carry_out
from plugins.module_utils.qos import install, program
from plugins.module_utils.roles import roce_qos
from tests.roles.qos_node import (
    CC,
    CM,
    DESCRIPTION,
    ECN,
    MAP,
    TCLASS,
    UNIT,
    QosNode,
    arguments,
    layers,
    run,
    settings,
)
from tests.tables import cases

BOTH = pytest.mark.parametrize("backend", ["dcb", "mlnx_qos"])


@pytest.fixture
def node(tmp_path: Path) -> QosNode:
    return QosNode.made(tmp_path / "node")


@BOTH
def test_factory_port_becomes_lossless_and_stays(node: QosNode, backend: str):
    result = run(node, backend=backend)
    assert settings(result)[:5] == ["trust", "PFC", "ETS", "global pause", "ToS of rdma_cm"]
    port = node.port
    assert port.entries == MAP
    assert port.registers == list(MAP.values())
    assert port.pfc == [priority == 3 for priority in range(8)]
    assert port.pause == ("off", "off")
    assert port.tsa == ["ets"] * 6 + ["strict", "ets"]
    assert port.percent == [50, 0, 0, 50, 0, 0, 0, 0]
    assert port.classes == [0, 0, 0, 3, 0, 0, 6, 0]
    assert node.value(CM + "default_roce_tos") == "106"
    assert node.units[UNIT] == {"ActiveState": "active", "UnitFileState": "enabled"}
    # Of all of these, only PFC takes the link down.
    flap = "ens1 PFC: the link goes down and comes up again, for 2 to 10 s"
    assert result["interrupts"] == [flap]
    again = run(node, backend=backend)
    assert (again["changed"], again["interrupts"]) == (False, [])


@BOTH
def test_cable_length_is_repaired_where_the_site_sets_buffers(node: QosNode, backend: str):
    buffers = {"priority_buffer": {"3": 1}, "buffer_bytes": {"1": 131072}}
    run(node, backend=backend, **buffers)
    node.port.delay = 1
    assert settings(run(node, backend=backend, **buffers)) == ["cable length"]
    node.port.delay = 1
    run(node, backend=backend)
    assert node.port.delay == 1  # mlx5 uses none for buffers that the firmware sizes


@BOTH
def test_one_class_may_have_all_of_the_bandwidth(node: QosNode, backend: str):
    # As mlx5e shows it: what the others share once the one is served (en_dcbnl.c).
    run(node, backend=backend, tc_percent={"3": 100})
    assert node.port.percent[3] == 100
    node.port.percent = [100 if tc == 3 else 14 for tc in range(8)]
    assert not run(node, backend=backend, tc_percent={"3": 100})["changed"]
    assert "ETS" in settings(run(node, backend=backend))


@pytest.mark.parametrize(("first", "second"), [("dcb", "mlnx_qos"), ("mlnx_qos", "dcb")])
def test_what_one_tool_set_is_right_for_the_other(node: QosNode, first: str, second: str):
    more = {
        "dscp_priorities": {"26": 5, "48": 6, "0": 1},
        "priority_buffer": {"3": 1},
        "buffer_bytes": {"1": 131072},
        "cable_length_m": 20,
    }
    run(node, backend=first, **more)
    assert (node.port.registers[26], node.port.registers[0]) == (5, 1)
    assert (node.port.priority_buffer[3], node.port.buffer_bytes[1]) == (1, 131072)
    assert node.port.delay == 20
    assert layers(run(node, backend=second, **more)) == {"configured"}  # the description names it


@pytest.mark.parametrize(
    ("backend", "sysfs"), [("dcb", False), ("mlnx_qos", False), ("mlnx_qos", True)]
)
@pytest.mark.parametrize("sizes", [{"1": 0, "2": 131072}, {"0": 131072, "2": 65536}])
def test_lossless_priority_moves_to_a_buffer_that_was_empty(node, backend, sysfs, sizes):
    node.port.sysfs = sysfs
    run(node, backend=backend, priority_buffer={"3": 1})
    moved = {"priority_buffer": {"3": 2}, "buffer_bytes": sizes}
    if sysfs and "1" in sizes:  # needs a layout in between, which is the site's to choose
        with pytest.raises(NodeError):
            run(node, backend=backend, **moved)
        return
    run(node, backend=backend, **moved)
    assert node.port.priority_buffer == [0, 0, 0, 2, 0, 0, 0, 0]
    assert {name: node.port.buffer_bytes[int(name)] for name in sizes} == sizes
    assert not run(node, backend=backend, **moved)["changed"]


def test_entry_that_was_removed_is_not_left_at_priority_0(node: QosNode):
    run(node)
    for dscp in (26, 27, 40):
        node.port.remove(dscp)
    assert node.port.registers[27] == 0
    (change,) = run(node)["changes"]
    assert (change["setting"], change["seen"]) == ("DSCP map", "26:none 27:none 40:none")
    assert node.port.registers == list(MAP.values())


def test_many_wrong_entries_are_counted(node: QosNode):
    run(node)
    for dscp in range(64):
        node.port.add(dscp, 7)
    (change,) = run(node)["changes"]
    assert change["wanted"] == "0:0 1:0 2:0 3:0 4:0 5:0 and 50 more"


@BOTH
def test_trust_goes_back_to_pcp(node: QosNode, backend: str):
    run(node, backend=backend)
    assert "trust" in settings(run(node, backend=backend, trust="pcp"))
    assert not node.port.entries


def test_port_that_refuses_is_an_error(node: QosNode):
    node.tools.deaf = True
    with pytest.raises(NodeError, match=r"dcb app add dev ens1 .*Protocol error"):
        run(node)
    assert not node.exists(DESCRIPTION)


def test_exit_status_of_dcb_is_not_believed(node: QosNode):
    node.tools.lying = True
    run(node)
    assert node.port.entries == MAP


# Congestion control and marking


def test_vendors_driver_has_ecn_and_cnps_as_described(node: QosNode):
    node.vendor()
    changes = run(node, dcqcn={"rp_ai_rate": 10})["changes"]
    for end in ("roce_np", "roce_rp"):
        on = [node.value(f"{ECN}{end}/enable/{priority}") for priority in range(8)]
        assert on == ["0", "0", "0", "1", "0", "0", "0", "0"]
    assert node.value(ECN + "roce_np/cnp_dscp") == "48"
    assert node.value(ECN + "roce_rp/rpg_ai_rate") == "10"
    assert "DSCP of CNPs" in [change["setting"] for change in changes]


def test_kernels_driver_has_cnps_in_debugfs(node: QosNode):
    for name, value in (("np_cnp_dscp", 4), ("np_cnp_prio", 6), ("np_cnp_prio_mode", 0)):
        node.put(CC + name, f"{value}\n")
    assert "DSCP of CNPs" in settings(run(node))
    assert node.value(CC + "np_cnp_dscp") == "48"
    node.put(CC + "np_cnp_prio_mode", "1\n")
    node.put(CC + "np_cnp_prio", "0\n")
    with pytest.raises(NodeError, match="not in effect"):  # a made-up file sets no other
        run(node)
    assert node.value(CC + "np_cnp_prio") == "6"


@pytest.mark.parametrize("locked", [False, True])
def test_driver_without_congestion_control_is_said(node: QosNode, locked: bool):
    if locked:
        node.put(CC + "np_cnp_dscp", "4\n")
        node.put("/sys/kernel/security/lockdown", "none [integrity] confidentiality\n")
    (why,) = run(node)["notes"]
    assert why.startswith("ens1: ECN and CNPs: there is no /sys/class/net/ens1/ecn")
    assert ("locked down" in why) == locked
    with pytest.raises(NodeError, match="roce_qos_dcqcn cannot be set"):
        run(node, dcqcn={"rp_ai_rate": 10})


def test_rdma_cm_that_is_not_loaded_is_loaded(node: QosNode):
    path = Path(node.path("/sys/kernel/config/rdma_cm"))
    path.rename(path.with_name("hidden"))

    def load(argv: list[str]) -> str:
        assert argv == ["modprobe", "rdma_cm"]
        path.with_name("hidden").rename(path)
        return ""

    node.programs["modprobe"] = load
    seen = [each["seen"] for each in run(node)["changes"] if "rdma_cm" in each["setting"]]
    assert seen == ["rdma_cm is not loaded"] * 2
    assert node.value(CM + "default_roce_tos") == "106"


def test_directory_of_rdma_cm_is_not_left(node: QosNode):
    node.remove(CM + "default_roce_tos")
    node.remove(CM + "default_roce_mode")
    for part in ("ports/1", "ports", ""):
        Path(node.path("/sys/kernel/config/rdma_cm/rocep24s0/" + part)).rmdir()
    with pytest.raises(NodeError, match="there is no /sys/kernel/config/rdma_cm/rocep24s0/ports"):
        run(node)
    assert node.names("/sys/kernel/config/rdma_cm") == []


@pytest.mark.parametrize(("force", "text", "written"), cases(__file__, "forced_traffic_class"))
def test_forced_traffic_class(node: QosNode, force: bool, text: str, written: str):
    node.vendor()
    node.put(TCLASS, text)
    if force:
        with pytest.raises(NodeError, match="not in effect"):  # a made-up file reads as written
            run(node, force_traffic_class=force)
    else:
        run(node, force_traffic_class=force)
    assert node.read(TCLASS) == written


# What a boot, a driver or an RDMA device sets again

WAIT = "/etc/systemd/system/sys-subsystem-net-devices-ens1.device.d/rdmaprov-roce-qos.conf"


def test_boot_waits_longer_for_a_rail_than_the_driver_for_its_firmware(node: QosNode):
    run(node)
    assert "[Unit]\nJobRunningTimeoutSec=300\n" in (node.read(WAIT) or "")
    run(node, backend="keep")
    assert not node.exists(WAIT)


@pytest.mark.parametrize(
    "lost",
    [
        DESCRIPTION,
        "/etc/systemd/system/rdmaprov-roce-qos@.service",
        "/etc/systemd/system/rdmaprov-roce-qos.service",
        WAIT,
        install.RULES,
        install.PROGRAM + "/node/qos/port.py",
    ],
)
def test_each_file_is_seen_alone(node: QosNode, lost: str):
    run(node)
    node.remove(lost)
    node.ran.clear()
    assert layers(run(node)) == {"configured"}
    assert node.exists(lost)
    assert [line for line in node.ran if " restart " in line] == [f"systemctl restart {UNIT}"]
    assert node.ran.index("systemctl daemon-reload") < node.ran.index(f"systemctl restart {UNIT}")


@pytest.mark.parametrize(("name", "value", "layer"), cases(__file__, "unit_is_seen_alone"))
def test_unit_is_seen_alone(node: QosNode, name: str, value: str, layer: str):
    run(node)
    node.units[UNIT][name] = value
    plan = roce_qos.plan(node, arguments())
    assert [(each["layer"], each["setting"]) for each in plan.changes()] == [(layer, "unit")]


def test_file_of_another_version_is_removed_from_the_program(node: QosNode):
    run(node)
    node.put(install.PROGRAM + "/node/qos/old.py", "import nothing\n")
    assert settings(run(node)) == ["program"]
    assert not node.exists(install.PROGRAM + "/node/qos/old.py")


def test_run_that_was_cut_anywhere_is_repaired(node: QosNode, tmp_path: Path):
    steps = len(roce_qos.plan(node, arguments()).steps)
    assert steps > 8
    for cut in range(steps):
        other = QosNode.made(tmp_path / f"cut{cut}")
        for step in roce_qos.plan(other, arguments()).steps[:cut]:
            step.do()
        again = roce_qos.plan(other, arguments())
        carry_out(again, lambda other=other: roce_qos.plan(other, arguments()))  # type: ignore[misc]
        assert other.units[UNIT] == {"ActiveState": "active", "UnitFileState": "enabled"}
        assert other.port.entries == MAP


def test_program_makes_what_the_role_makes(node: QosNode, tmp_path: Path):
    run(node)
    after_boot = QosNode.made(tmp_path / "booted")
    after_boot.put(DESCRIPTION, node.read(DESCRIPTION) or "")
    assert program.main([], after_boot, patience_s=0) == 0
    assert vars(after_boot.port) == vars(node.port)
    assert after_boot.value(CM + "default_roce_tos") == "106"
    assert program.apply(after_boot, "ens1")[:-1] == []


def test_program_waits_for_what_a_driver_makes_later(node, monkeypatch, capsys):
    run(node)
    port = node.tools.ports.pop("ens1")
    monkeypatch.setattr("time.sleep", lambda _: node.tools.ports.update(ens1=port))
    assert program.main(["ens1"], node, patience_s=10) == 0
    del node.tools.ports["ens1"]
    assert program.main(["ens1"], node, patience_s=0) == 1
    assert "ens1: it has no DCB, although it is a port" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "{"])
def test_program_says_what_is_wrong_with_a_description(node, text, capsys):
    if text:
        node.put(DESCRIPTION, text)
    assert program.main(["ens1"], node, patience_s=0) == 1
    assert capsys.readouterr().err


def test_installed_program_runs_without_ansible(tmp_path: Path):
    sources = shipped.sources(install.OWNER, install.MODULES)
    for name, text in sources.items():
        path = tmp_path / "roce_qos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert not [text for text in sources.values() if "import ansible" in text]
    argv = [sys.executable, "-I", "-S", "-B", str(tmp_path / "roce_qos"), "no-such-netdev"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr == (
        "no-such-netdev: there is no /etc/rdmaprov/roce_qos/no-such-netdev.json. "
        "Run on the controller: rdmaprov apply\n"
    )


@pytest.mark.parametrize("target", ["multi-user.target", "sys-subsystem-net-devices-ens1.device"])
def test_unit_that_the_disk_does_not_link_is_enabled_again(node: QosNode, target: str):
    """A boot goes by the disk, and systemd remembers the links."""
    unit = "rdmaprov-roce-qos@ens1.service"
    link = f"/etc/systemd/system/{target}.wants/{unit}"
    run(node)
    node.remove(link)
    (change,) = run(node)["changes"]
    assert (change["device"], change["seen"]) == ("ens1", "not linked on the disk")
    assert node.exists(link)
    assert run(node)["changes"] == []
