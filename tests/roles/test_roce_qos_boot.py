"""What sets RoCE QoS again at a boot: the files, the unit, and the program that it runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from plugins.module_utils import shipped
from plugins.module_utils.plan import carry_out
from plugins.module_utils.qos import install, program
from plugins.module_utils.roles import roce_qos
from tests.roles.qos_node import (
    CM,
    DESCRIPTION,
    MAP,
    UNIT,
    QosNode,
    arguments,
    layers,
    run,
    settings,
)


@pytest.fixture
def node(tmp_path: Path) -> QosNode:
    return QosNode.made(tmp_path / "node")


# What a boot, a driver or an RDMA device sets again


@pytest.mark.parametrize(
    "lost",
    [
        DESCRIPTION,
        "/etc/systemd/system/rdmaprov-roce-qos@.service",
        "/etc/systemd/system/rdmaprov-roce-qos.service",
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


@pytest.mark.parametrize(
    ("name", "value", "layer"),
    [
        ("UnitFileState", "disabled", "configured"),
        ("ActiveState", "failed", "running"),
        ("NeedDaemonReload", "yes", "running"),
    ],
)
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


def test_program_waits_for_what_a_driver_makes_later(
    node: QosNode, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    run(node)
    port = node.tools.ports.pop("ens1")
    monkeypatch.setattr("time.sleep", lambda _: node.tools.ports.update(ens1=port))
    assert program.main(["ens1"], node, patience_s=10) == 0
    del node.tools.ports["ens1"]
    assert program.main(["ens1"], node, patience_s=0) == 1
    assert "ens1: it has no DCB, although it is a port" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "{"])
def test_program_says_what_is_wrong_with_a_description(
    node: QosNode, text: str, capsys: pytest.CaptureFixture[str]
):
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
