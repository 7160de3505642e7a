"""The subnet manager: where the site says so, once, and never beside a stranger."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from plugins.module_utils import busy
from plugins.module_utils.converge import converge
from plugins.module_utils.plan import Refused
from plugins.module_utils.roles import subnet_manager
from plugins.module_utils.subnet_manager.port import Port
from tests.roles.fake import FakeMachine
from tests.roles.opensm_node import CONFIGURATION, GUID, OTHER, UNIT, OpensmNode, arguments

NAME = "rdmaprov-opensm-rail0.service"


@pytest.fixture
def node(tmp_path: Path) -> OpensmNode:
    return OpensmNode.made(tmp_path / "node")


def apply(machine: FakeMachine, /, *, check: bool = False, **changed: object) -> dict[str, Any]:
    result: dict[str, Any] = converge(machine, subnet_manager, arguments(**changed), check=check)
    return result


def ran(node: OpensmNode, word: str) -> list[str]:
    return [line for line in node.ran if line.startswith(f"systemctl {word}")]


def test_manager_runs_with_the_sites_configuration_now_and_at_boot(node: OpensmNode):
    result = apply(node)
    assert [(each["layer"], each["device"], each["wanted"]) for each in result["changes"]] == [
        ("configured", "opensm.service", "masked"),
        ("configured", "opensmd.service", "masked"),
        ("configured", "/etc/opensm/rdmaprov-partitions.conf", "present"),
        ("configured", "/etc/opensm/rdmaprov-root-guids.conf", "present"),
        ("configured", CONFIGURATION, "present"),
        ("configured", UNIT, "present"),
        ("configured", NAME, "enabled"),
        ("running", NAME, "runs as configured"),
    ]
    assert (node.read(CONFIGURATION) or "").splitlines()[1:] == [
        *("guid 0xb8cef60300a1b2c4", "sm_priority 14", "routing_engine ftree,updn"),
        "partition_config_file /etc/opensm/rdmaprov-partitions.conf",
        "root_guid_file /etc/opensm/rdmaprov-root-guids.conf",
        "log_file /var/log/rdmaprov-opensm-rail0/opensm.log",
        *("dump_files_dir /var/log/rdmaprov-opensm-rail0/", "sminfo_polling_timeout 1000"),
        *("polling_retry_number 3", "log_max_size 100", "qos FALSE", "use_ucast_cache TRUE"),
    ]
    assert (node.read("/etc/opensm/rdmaprov-partitions.conf") or "").splitlines()[1:] == [
        "Default=0x7fff, ipoib : ALL=full;",
        "partition2=0x0002, ipoib : ALL=limited;",
        "compute=0x8001, ipoib : ALL=full;",
    ]
    assert "0xb8cef603000000a1\n" in (node.read("/etc/opensm/rdmaprov-root-guids.conf") or "")
    assert not apply(node)["changed"]


@pytest.mark.parametrize("hosts", [[], ["ib07", "ib08"]])
def test_node_that_is_not_named_is_left_alone_in_silence(node: OpensmNode, hosts: list[str]):
    result = apply(node, hosts=hosts)
    assert (result["changes"], result["notes"], result["warnings"]) == ([], [], [])
    assert node.ran == []


def test_only_manager_is_a_warning(node: OpensmNode):
    (warning,) = apply(node, hosts=["ib01"])["warnings"]
    assert "ib01 is the only manager" in warning
    assert apply(node)["warnings"] == []


def test_second_host_stands_by_with_a_lower_priority(node: OpensmNode):
    node.masters, node.descriptions = [(OTHER, 3, 14)], {3: "ib01 mlx5_0"}
    result = apply(node, node="ib02")
    assert "sm_priority 13\n" in (node.read(CONFIGURATION) or "")
    assert result["interrupts"] == []


def test_masked_before_the_installation_that_would_start_it(node: OpensmNode):
    node.install()
    apply(node)
    assert "active" not in node.units["opensm.service"].values()
    assert node.units[NAME]["ActiveState"] == "active"
    assert not apply(node)["changed"]


def test_packages_own_manager_is_stopped(node: OpensmNode):
    node.units["opensm.service"] = {"LoadState": "loaded", "ActiveState": "active"}
    node.masters = [(GUID, 1, 0)]
    result = apply(node)
    assert ran(node, "stop") == ["systemctl stop opensm.service"]
    assert any("opensm.service" in each for each in result["interrupts"])
    assert not apply(node)["changed"]


def test_changed_setting_restarts_and_says_what_the_masters_restart_does(node: OpensmNode):
    apply(node)
    node.ran.clear()
    (note,) = apply(node, check=True, engines=["updn"])["notes"]
    assert "Apply to the standby managers first" in note
    result = apply(node, engines=["updn"])
    assert ran(node, "restart") == [f"systemctl restart {NAME}"]
    (interrupt,) = result["interrupts"]
    assert interrupt.startswith("subnet manager of rail 0: the master restarts")
    assert not apply(node, engines=["updn"])["changed"]


def test_changed_partitions_restart_it(node: OpensmNode):
    apply(node)
    assert {each["device"] for each in apply(node, partitions=[])["changes"]} == {
        "/etc/opensm/rdmaprov-partitions.conf",
        UNIT,
        NAME,
    }


def test_standbys_restart_interrupts_nothing(node: OpensmNode):
    node.masters, node.descriptions = [(OTHER, 3, 14)], {3: "ib01 mlx5_0"}
    apply(node, node="ib02")
    assert apply(node, node="ib02", qos=True)["interrupts"] == []


def test_masters_restart_is_refused_on_a_busy_node(node, monkeypatch):
    apply(node)
    monkeypatch.setattr(busy, "users", lambda _: ["pid 9 of root, python"])
    with pytest.raises(busy.Busy, match="the master restarts"):
        apply(node, qos=True)


def test_process_that_was_started_with_other_files_is_restarted(node: OpensmNode):
    apply(node)
    node.put("/proc/7/environ", "PATH=/bin\0RDMAPROV_CONFIGURATION=0123456789abcdef\0")
    (change,) = apply(node)["changes"]
    assert (change["layer"], change["seen"]) == ("running", "started with another configuration")


def test_rail_on_another_port_restarts_it(node: OpensmNode):
    apply(node)
    gid = "fe80:0000:0000:0000:b8ce:f603:00a1:b2d5\n"
    node.put("/sys/class/infiniband/mlx5_0/ports/1/gids/0", gid)
    node.descriptions = {1: "ib01 mlx5_0"}
    assert [each["device"] for each in apply(node)["changes"]] == [CONFIGURATION, UNIT, NAME]


@pytest.mark.parametrize("priority", [0, 15])
def test_strangers_master_is_refused_by_name_and_nothing_is_changed(node, priority):
    node.masters, node.descriptions = [(OTHER, 9, priority)], {9: "MF0;sw-core-1:MQM8700/U1"}
    with pytest.raises(Refused) as refusal:
        apply(node)
    said = str(refusal.value)
    assert f"a master (priority {priority})" in said
    assert "MF0;sw-core-1:MQM8700/U1, LID 9, GUID 0x248a070300f0f0f0" in said
    assert "subnet_manager_beside: ['0x248a070300f0f0f0']" in said
    assert not node.exists("/etc/opensm")
    assert not node.units


def test_stranger_that_appears_with_the_tools_is_refused_before_the_start(node: OpensmNode):
    node.install()
    node.masters, node.descriptions = [(OTHER, 9, 0)], {9: "sw1"}
    with pytest.raises(Refused, match="sw1, LID 9"):
        apply(node)
    assert ran(node, "restart") == []


def test_named_stranger_is_accepted(node: OpensmNode):
    node.masters, node.descriptions = [(OTHER, 9, 2)], {9: "sw1"}
    result = apply(node, beside=["0x248a070300f0f0f0"])
    assert "it takes over from priority 2" in result["interrupts"][0]


def test_node_that_is_no_manager_any_more_loses_its_own(node: OpensmNode):
    apply(node)
    result = apply(node, hosts=["ib02"])
    assert {
        "device": NAME,
        "layer": "running",
        "setting": "unit",
        "seen": "running",
        "wanted": "absent",
    } in result["changes"]
    assert "it ends; the next manager takes over" in result["interrupts"][0]
    assert node.names("/etc/opensm") == []
    assert not node.exists(UNIT)
    assert not apply(node, hosts=["ib02"])["changed"]


def test_partition_of_a_key_is_made_unless_a_line_has_it(node: OpensmNode):
    lines = ["Default=0x7fff, ipoib, mtu=5 : ALL=full;"]
    apply(node, partitions=lines, rails=[{"pci": "0000:18:00.0", "pkeys": ["0x8003"]}])
    assert (node.read("/etc/opensm/rdmaprov-partitions.conf") or "").splitlines()[1:] == [
        "partition1=0x0001, ipoib : ALL=full;",
        "partition2=0x0002, ipoib : ALL=limited;",
        "partition3=0x0003, ipoib : ALL=full;",
        *lines,
    ]


def test_each_subnet_has_a_manager_of_its_own(node: OpensmNode):
    node.put("/sys/class/infiniband/mlx5_1/ports/1/link_layer", "InfiniBand\n")
    gid = "fe80:0000:0000:0001:b8ce:f603:00a1:b2c5\n"
    node.put("/sys/class/infiniband/mlx5_1/ports/1/gids/0", gid)
    node.programs["sminfo -C mlx5_1 -P 1"] = node.programs["sminfo -C mlx5_0 -P 1"]
    node.programs["saquery -C mlx5_1 -P 1 SMIR"] = ""
    rails = [{"rdma": "mlx5_0"}, {"rdma": "mlx5_1", "subnet_prefix": "0xfe80000000000001"}]
    for step in subnet_manager.plan(node, arguments(rails=rails, subnet_rails=[0, 1])).steps:
        if step.diff:
            step.do()
    one, other = (node.read(f"/etc/opensm/rdmaprov-rail{rail}.conf") or "" for rail in (0, 1))
    assert "subnet_prefix" not in one
    assert "guid 0xb8cef60300a1b2c5\n" in other
    assert "subnet_prefix 0xfe80000000000001\n" in other
    assert "log_file /var/log/rdmaprov-opensm-rail1/opensm.log\n" in other


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_unit_is_one_that_systemd_reads_without_a_complaint(tmp_path: Path):
    for name in ("modprobe", "opensm"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    text = subnet_manager.text(Port(0, "mlx5_0", 1, GUID), "0123456789abcdef")
    for path in ("/sbin/modprobe", "/usr/sbin/opensm"):
        text = text.replace(path, str(tmp_path / path.rpartition("/")[2]))
    text = "".join(line + "\n" for line in text.splitlines() if "man:" not in line)
    (tmp_path / NAME).write_text(text)
    verify = ["systemd-analyze", "verify", "--recursive-errors=no", str(tmp_path / NAME)]
    done = subprocess.run(verify, capture_output=True, text=True, check=False)
    assert [line for line in done.stderr.splitlines() if NAME in line] == []
