"""Congestion control and RDMA connections of RoCE ports: ECN, CNPs, RDMA CM, traffic class."""

from __future__ import annotations

from pathlib import Path

import pytest
from plugins.module_utils.machine import NodeError
from tests.roles.qos_node import CC, CM, ECN, TCLASS, QosNode
from tests.roles.qos_runs import factory, run, settings


@pytest.fixture
def node(tmp_path: Path) -> QosNode:
    return factory(tmp_path / "node")


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


@pytest.mark.parametrize(
    ("force", "text", "written"),
    [
        (True, "", "106"),
        (True, "Global tclass=96\n", "106"),
        (False, "Global tclass=236\n", "-1"),
        (False, "", ""),
        (False, "Global tclass=106\n", "Global tclass=106\n"),
    ],
)
def test_forced_traffic_class(node: QosNode, force: bool, text: str, written: str):
    node.vendor()
    node.put(TCLASS, text)
    if force:
        with pytest.raises(NodeError, match="not in effect"):  # a made-up file reads as written
            run(node, force_traffic_class=force)
    else:
        run(node, force_traffic_class=force)
    assert node.read(TCLASS) == written
