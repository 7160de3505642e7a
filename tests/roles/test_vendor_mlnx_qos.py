"""The vendor's mlnx_qos sets what dcb sets. RDMAPROV_MLNX_TOOLS names a checkout of its code."""

from __future__ import annotations

from copy import copy, deepcopy
from pathlib import Path
from typing import Any

import pytest
from plugins.module_utils.converge import converge
from plugins.module_utils.qos.mlnx_qos import MlnxQos
from plugins.module_utils.roles import roce_qos
from tests.roles.card import listing
from tests.roles.qos_node import QosNode, arguments
from tests.roles.vendor_qos import Vendor

MORE = {
    "dscp_priorities": {"26": 5, "48": 6, "0": 1},
    "pfc_priorities": [5],
    "priority_buffer": {"5": 2},
    "buffer_bytes": {"0": 65536, "1": 0, "2": 131072},
    "cable_length_m": 20,
}
DESCRIPTIONS: tuple[dict[str, Any], ...] = ({}, MORE)


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> QosNode:
    made = QosNode.made(tmp_path / "vendor")
    made.programs["mlnx_qos "] = Vendor(made.tools, monkeypatch)
    return made


def run(node: QosNode, backend: str = "mlnx_qos", **changed: Any) -> dict[str, Any]:
    return converge(node, roce_qos, arguments(backend=backend, **changed), check=False)


@pytest.mark.parametrize("more", DESCRIPTIONS, ids=["defaults", "all"])
def test_both_tools_reach_the_same_state(node: QosNode, tmp_path: Path, more: dict[str, Any]):
    other = QosNode.made(tmp_path / "dcb")
    run(other, "dcb", **more)
    run(node, **more)
    assert vars(node.port) == vars(other.port)
    assert not run(node, **more)["changed"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("pfc", [True] * 8),
        ("tsa", ["strict"] * 8),
        ("percent", [10, 0, 0, 90, 0, 0, 0, 0]),
        ("classes", [0] * 8),
        ("delay", 1),
        ("host", False),
        ("entries", {}),
        ("entries", {26: 0}),
    ],
)
def test_one_wrong_setting_is_repaired(node: QosNode, name: str, value: object):
    run(node)
    right = deepcopy(getattr(node.port, name))
    setattr(node.port, name, copy(value))
    assert run(node)["changed"]
    assert getattr(node.port, name) == right


def test_trust_goes_back_to_pcp(node: QosNode):
    run(node)
    run(node, trust="pcp")
    assert not node.port.entries


def test_firmware_is_given_the_decision(node: QosNode):
    run(node)
    run(node, dcbx="firmware")
    assert not node.port.host


def test_port_without_dcb_has_none(node: QosNode):
    assert MlnxQos(node).read("eno1") is None


def test_made_up_listing_is_the_vendors(node: QosNode):
    for more in DESCRIPTIONS:
        run(node, **more)
        assert node.run(["mlnx_qos", "-i", "ens1", "-a"]) == listing(node.port)
