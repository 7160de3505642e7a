"""NCCL's tuner plugin and partition keys in nccl.conf."""

from typing import Any

import pytest
from plugins.module_utils.converge import converge
from plugins.module_utils.nccl import tuner
from plugins.module_utils.plan import NotYet, Refused
from plugins.module_utils.roles import nccl
from tests.roles.fake import FakeMachine
from tests.roles.nccl_node import CONF, ROCE, arguments, body, two_rails

from rdmaprov.contract.nccl import is_library


@pytest.fixture
def node(machine: FakeMachine) -> FakeMachine:
    return two_rails(machine)


def tuned(**changed: object) -> dict[str, Any]:
    return arguments(tuner_plugin="example", **changed)


def test_plugin_is_a_line_that_goes_with_its_setting(node: FakeMachine):
    result = converge(node, nccl, tuned(), check=False)
    assert result["changes"][-1]["setting"] == "NCCL_TUNER_PLUGIN"
    assert body(node)[-1] == "NCCL_TUNER_PLUGIN=example"
    assert not converge(node, nccl, tuned(), check=False)["changed"]
    converge(node, nccl, arguments(), check=False)
    assert body(node) == ROCE


def test_vendor_s_plugin_is_merged_unless_the_site_names_one(node: FakeMachine):
    node.put(CONF, "NCCL_TUNER_PLUGIN=ofi\n")
    converge(node, nccl, arguments(conf_existing="merge"), check=False)
    assert body(node)[-1] == "NCCL_TUNER_PLUGIN=ofi"
    converge(node, nccl, tuned(conf_existing="merge"), check=False)
    assert "NCCL_TUNER_PLUGIN=ofi" not in body(node)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"tuner_plugin": "example", "version": "2.18", "ib_gid_index": 1}, "2.18 has no tuner"),
        ({"tuner_plugin": "a b"}, "'a b' is not a library's name"),
        ({"environment": {"NCCL_TUNER_PLUGIN": "x"}}, "write nccl_tuner_plugin"),
    ],
)
def test_what_loads_no_plugin_is_refused(node: FakeMachine, changed, message):
    with pytest.raises(Refused, match=message):
        converge(node, nccl, arguments(**changed), check=True)


@pytest.mark.parametrize(
    "name", ["example", "/opt/t/libnccl-tuner-x.so", "", "a b", "x" * 300, "/"]
)
def test_node_and_controller_agree_on_what_names_a_plugin(name):
    assert (tuner.plugin_fault(name) == "") == is_library(name)


def in_partitions(node: FakeMachine, name: str, *keys: str) -> None:
    for index, key in enumerate(keys):
        node.put(f"/sys/class/infiniband/{name}/ports/1/pkeys/{index}", key + "\n")


def in_a_partition(**changed: object) -> dict[str, Any]:
    return arguments(kind="infiniband", ib_tc=0, ib_sl=1, ib_pkey="0x8001", **changed)


def test_partition_is_its_index_in_the_tables_of_all_ports(node: FakeMachine):
    in_partitions(node, "rocep24s0", "0xffff", "0x8001", "0x0001", "0x0000")
    in_partitions(node, "mlx5_1", "0xffff", "0x8001", "0x0000")
    converge(node, nccl, in_a_partition(), check=False)
    assert "NCCL_IB_PKEY=1" in body(node)
    assert not converge(node, nccl, in_a_partition(), check=False)["changed"]
    # The subnet manager writes the tables anew.
    for name in ("rocep24s0", "mlx5_1"):
        in_partitions(node, name, "0xffff", "0x8007", "0x8001")
    result = converge(node, nccl, in_a_partition(), check=False)
    assert [(each["setting"], each["seen"], each["wanted"]) for each in result["changes"]] == [
        ("NCCL_IB_PKEY", "1", "2")
    ]


def test_partition_that_is_not_on_a_port_is_not_yet(node: FakeMachine):
    in_partitions(node, "rocep24s0", "0xffff", "0x8001")
    in_partitions(node, "mlx5_1", "0xffff", "0x0001")
    with pytest.raises(NotYet, match="mlx5_1: its port has no partition key 0x8001"):
        nccl.plan(node, in_a_partition())


def test_partition_without_one_index_for_all_ports_is_refused(node: FakeMachine):
    in_partitions(node, "rocep24s0", "0xffff", "0x8001")
    in_partitions(node, "mlx5_1", "0x8001", "0xffff")
    with pytest.raises(Refused, match="no index that is the same on rocep24s0, mlx5_1"):
        nccl.plan(node, in_a_partition())


@pytest.mark.parametrize("key", ["1", "0x8000", "0x18001", "default"])
def test_text_that_is_no_partition_key_is_refused(node: FakeMachine, key: str):
    with pytest.raises(Refused, match="is not a partition key"):
        nccl.plan(node, {**in_a_partition(), "ib_pkey": key})
