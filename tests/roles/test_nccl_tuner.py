"""The file of NCCL's tuner plugin, and its variables in nccl.conf."""

from typing import Any

import pytest
from plugins.module_utils.converge import converge
from plugins.module_utils.nccl import tuner
from plugins.module_utils.plan import NotYet, Refused
from plugins.module_utils.roles import nccl
from tests.roles.fake import FakeMachine
from tests.roles.nccl_node import CONF, ROCE, arguments, body, two_rails

from rdmaprov.tuner import files
from rdmaprov.tuner.files import tuner_file
from rdmaprov.tuner.model import Gain
from rdmaprov.tuner.settings import usual_settings

TUNER = "/etc/nccl_tuner.conf"
LINE = "allreduce,262145,2965820,tree,ll128,16,4,32,-1,-1"


@pytest.fixture
def node(machine: FakeMachine) -> FakeMachine:
    return two_rails(machine)


def tuned(**changed: object) -> dict[str, Any]:
    return arguments(tuner_plugin="example", tuner_config=f"# 1 MiB: +25 %\n{LINE}\n", **changed)


def test_tuner_file_is_written_for_all_and_goes_with_its_setting(node: FakeMachine):
    result = converge(node, nccl, tuned(), check=False)
    assert [each["setting"] for each in result["changes"]][-2:] == [
        "NCCL_TUNER_PLUGIN",
        "NCCL_TUNER_CONFIG_FILE",
    ]
    assert body(node)[-2:] == ["NCCL_TUNER_PLUGIN=example", f"NCCL_TUNER_CONFIG_FILE={TUNER}"]
    assert (node.read(TUNER) or "").splitlines()[1:] == ["# 1 MiB: +25 %", LINE]
    assert node.mode(TUNER) == 0o644
    assert not converge(node, nccl, tuned(), check=False)["changed"]
    without = converge(node, nccl, arguments(), check=False)
    assert node.read(TUNER) is None
    assert body(node) == ROCE
    assert any(
        each["device"] == TUNER and each["wanted"] == "absent" for each in without["changes"]
    )
    assert not converge(node, nccl, arguments(), check=False)["changed"]


def test_tuner_file_that_somebody_edited_is_kept_beside_it(node: FakeMachine):
    converge(node, nccl, tuned(), check=False)
    edited = (node.read(TUNER) or "") + "allgather,0,8,ring,ll,4,2,16\n"
    node.put(TUNER, edited)
    converge(node, nccl, tuned(), check=False)
    assert LINE in (node.read(TUNER) or "").splitlines()
    [backup] = [name for name in node.names("/etc") if name.startswith("nccl_tuner.conf.")]
    assert node.read(f"/etc/{backup}") == edited


def test_tuner_file_of_somebody_else_stays_where_the_site_says_nothing(node: FakeMachine):
    node.put(TUNER, LINE)
    converge(node, nccl, arguments(), check=False)
    assert node.read(TUNER) == LINE


def test_vendor_s_plugin_is_merged_unless_the_site_names_one(node: FakeMachine):
    node.put(CONF, "NCCL_TUNER_PLUGIN=ofi\n")
    converge(node, nccl, arguments(conf_existing="merge"), check=False)
    assert body(node)[-1] == "NCCL_TUNER_PLUGIN=ofi"
    converge(node, nccl, tuned(conf_existing="merge"), check=False)
    assert "NCCL_TUNER_PLUGIN=ofi" not in body(node)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"tuner_config": LINE}, "nccl_tuner_config: no plugin reads it"),
        ({"tuner_plugin": "example", "version": "2.18", "ib_gid_index": 1}, "2.18 has no tuner"),
        ({"tuner_plugin": "a b"}, "'a b' is no library's name"),
        ({"tuner_plugin": "x", "tuner_config": "allreduce,0,8,rings,ll,4,2,16"}, "line 1"),
        ({"environment": {"NCCL_TUNER_PLUGIN": "x"}}, "write nccl_tuner_plugin"),
        ({"environment": {"NCCL_TUNER_CONFIG_FILE": "/x"}}, "write nccl_tuner_config"),
    ],
)
def test_what_no_plugin_reads_as_it_looks_is_refused(node: FakeMachine, changed, message):
    with pytest.raises(Refused, match=message):
        converge(node, nccl, arguments(**changed), check=True)


GOOD_LINES = (
    "",
    "# text = anything, of any form",
    LINE,
    LINE[:-3],
    LINE[:-6],
    "allgather,0,0,nvls_tree,simple,64,-1,-1,1,0",
    "reduce,1,999999999999999999,pat,ll,-1,2,16",
)
BAD_LINES = (
    LINE + ",1", LINE[:-9], LINE.replace("tree", "Tree"), LINE.replace("ll128", "LL128"),
    LINE.replace("allreduce", "all_reduce"), LINE.replace("allreduce", "alltoall"), " " + LINE,
    LINE.replace(",16,", ",65,"), LINE.replace(",16,", ",0,"), LINE.replace(",16,", ",099,"),
    LINE.replace("2965820", "1"), LINE.replace("262145", "-1"), LINE.replace(",32,", ",3.2,"),
    LINE.replace(",32,", ",²,"), "#" + "x" * 255, LINE + "\r", "# a\tb", LINE + "\n" * 70_000,
)  # fmt: skip


@pytest.mark.parametrize("text", [*GOOD_LINES, *BAD_LINES])
def test_node_and_controller_agree_on_what_a_tuner_file_may_have(text):
    is_good = text in GOOD_LINES
    assert (tuner.fault(text) == "") == is_good
    assert (files.tuner_file_fault(text) == "") == is_good


@pytest.mark.parametrize(
    "name", ["example", "/opt/t/libnccl-tuner-x.so", "", "a b", "x" * 300, "/"]
)
def test_node_and_controller_agree_on_what_names_a_plugin(name):
    assert (tuner.plugin_fault(name) == "") == files.is_library(name)


def test_what_tune_writes_is_a_file_that_the_role_takes():
    of_sizes = [setting for setting in usual_settings(rdma=True, nvls=True) if setting.is_of_a_size]
    for setting in of_sizes:
        text = tuner_file([Gain(setting, 1 << 20, 0.25, 0.2)], [1 << 16, 1 << 20, 1 << 23], 4, 32)
        assert text.count("allreduce,") == 1
        assert tuner.fault(text) == ""


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
