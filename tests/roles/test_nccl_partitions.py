"""NCCL_IB_PKEY: the index of a partition key in the tables of all ports."""

from __future__ import annotations

from typing import Any

import pytest
from plugins.module_utils.converge import converge
from plugins.module_utils.plan import NotYet, Refused
from plugins.module_utils.roles import nccl
from tests.roles.fake import FakeMachine
from tests.roles.nccl_node import arguments, body, two_rails


@pytest.fixture
def node(machine: FakeMachine) -> FakeMachine:
    """Provide a node with two rails."""
    return two_rails(machine)


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
