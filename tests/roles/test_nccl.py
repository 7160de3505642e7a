"""nccl.conf: derived from the fabric, read as NCCL reads it, and never taken from its writer."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from plugins.module_utils.argument_specs import ARGUMENTS
from plugins.module_utils.converge import converge
from plugins.module_utils.machine import NodeError
from plugins.module_utils.nccl import conf, tuner
from plugins.module_utils.plan import NotYet, Refused
from plugins.module_utils.roles import nccl
from tests.roles.fake import FakeMachine

from rdmaprov.contract import nccl as contract
from rdmaprov.tuner import lines
from rdmaprov.tuner.files import tuner_file
from rdmaprov.tuner.model import Gain
from rdmaprov.tuner.settings import usual_settings

CONF = "/etc/nccl.conf"
OLD = "NCCL_IB_HCA=mlx5_bond_0\nNCCL_IB_GID_INDEX=3\nNCCL_IB_TC=0\nNCCL_SOCKET_IFNAME=eno1\n"
ROCE = [
    "NCCL_IB_HCA==rocep24s0,mlx5_1",
    "NCCL_IB_TC=106",
    "NCCL_IB_ADDR_FAMILY=AF_INET",
    "NCCL_CROSS_NIC=0",
]


@pytest.fixture
def node(machine: FakeMachine) -> FakeMachine:
    """Provide a node with two rails, whose RDMA devices have names of two kinds."""
    machine.nic("ens1", pci="0000:18:00.0", rdma="rocep24s0", index=3)
    machine.nic("ens2", pci="0000:29:00.0", rdma="mlx5_1", index=4)
    machine.nic("eno1", pci="0000:01:00.0", index=2)
    for name in ("rocep24s0", "mlx5_1"):
        for index, kind in enumerate(["IB/RoCE v1", "RoCE v2"]):
            machine.put(f"/sys/class/infiniband/{name}/ports/1/gid_attrs/types/{index}", kind)
    return machine


def arguments(**changed: object) -> dict[str, Any]:
    defaults = {name: of.get("default") for name, of in ARGUMENTS["nccl"].items()}
    return {
        **defaults,
        "kind": "roce",
        "rails": [{"netdev": "ens1"}, {"pci": "0000:29:00.0"}],
        "ib_tc": 106,
        "ib_address_family": "ipv4",
        "ib_sl": 0,
        "ib_pkey": "",
        "cross_nic": 0,
        **changed,
    }


def body(node: FakeMachine) -> list[str]:
    """Return the file's lines without its header."""
    header, *lines = (node.read(CONF) or "").splitlines()
    assert "=" not in header
    return lines


def backups(node: FakeMachine) -> list[str]:
    return [name for name in node.names("/etc") if name.startswith("nccl.conf.")]


def test_roce_node_has_exact_names_and_no_gid_index(node: FakeMachine):
    result = converge(node, nccl, arguments(), check=False)
    assert body(node) == ROCE
    assert (node.read(CONF) or "").endswith("=0\n")
    assert [(each["setting"], each["seen"], each["wanted"]) for each in result["changes"]] == [
        ("NCCL_IB_HCA", "absent", "=rocep24s0,mlx5_1"),
        ("NCCL_IB_TC", "absent", "106"),
        ("NCCL_IB_ADDR_FAMILY", "absent", "AF_INET"),
        ("NCCL_CROSS_NIC", "absent", "0"),
    ]
    assert len(result["diff"]) == 1
    assert not converge(node, nccl, arguments(), check=False)["changed"]
    assert not backups(node)


def test_check_mode_changes_nothing(node: FakeMachine):
    node.put(CONF, OLD)
    assert converge(node, nccl, arguments(), check=True)["changed"]
    assert node.read(CONF) == OLD
    assert not backups(node)


def test_everything_that_a_site_can_say_is_written(node: FakeMachine):
    given = arguments(
        ib_address_range="198.18.0.0/15",
        socket_ifname="=eno1",
        environment={"NCCL_IB_TIMEOUT": 22, "NCCL_DEBUG": "WARN"},
    )
    converge(node, nccl, given, check=False)
    assert body(node) == [
        *ROCE[:3],
        "NCCL_IB_ADDR_RANGE=198.18.0.0/15",
        "NCCL_SOCKET_IFNAME==eno1",
        "NCCL_CROSS_NIC=0",
        "NCCL_DEBUG=WARN",
        "NCCL_IB_TIMEOUT=22",
    ]


TUNER = "/etc/nccl_tuner.conf"
LINE = "allreduce,262145,2965820,tree,ll128,16,4,32,-1,-1"


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
    "", "# text = anything, of any form", LINE, LINE[:-3], LINE[:-6],
    "allgather,0,0,nvls_tree,simple,64,-1,-1,1,0", "reduce,1,999999999999999999,pat,ll,-1,2,16",
)  # fmt: skip
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
    assert (lines.tuner_file_fault(text) == "") == is_good


@pytest.mark.parametrize(
    "name", ["example", "/opt/t/libnccl-tuner-x.so", "", "a b", "x" * 300, "/"]
)
def test_node_and_controller_agree_on_what_names_a_plugin(name):
    assert (tuner.plugin_fault(name) == "") == lines.is_library(name)


def test_what_tune_writes_is_a_file_that_the_role_takes():
    of_sizes = [setting for setting in usual_settings(rdma=True, nvls=True) if setting.is_of_a_size]
    for setting in of_sizes:
        text = tuner_file([Gain(setting, 1 << 20, 0.25, 0.2)], [1 << 16, 1 << 20, 1 << 23], 4, 32)
        assert text.count("allreduce,") == 1
        assert tuner.fault(text) == ""


def test_ipv6_rails_are_chosen_by_their_family(node: FakeMachine):
    given = arguments(ib_address_family="ipv6", ib_address_range="2001:db8::/32")
    converge(node, nccl, given, check=False)
    assert body(node)[2:4] == ["NCCL_IB_ADDR_FAMILY=AF_INET6", "NCCL_IB_ADDR_RANGE=2001:db8::/32"]


def test_sharp_that_is_wanted_turns_collnet_on(node: FakeMachine):
    wanted = arguments(kind="infiniband", ib_tc=0, sharp="wanted")
    converge(node, nccl, wanted, check=False)
    assert "NCCL_COLLNET_ENABLE=1" in body(node)
    converge(node, nccl, {**wanted, "sharp": "off"}, check=False)
    assert not any("COLLNET" in line for line in body(node))


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


def test_infiniband_has_a_service_level_and_no_gid(node: FakeMachine):
    converge(node, nccl, arguments(kind="infiniband", ib_tc=0, ib_sl=2), check=False)
    assert body(node) == [ROCE[0], "NCCL_IB_SL=2", "NCCL_CROSS_NIC=0"]


def test_named_devices_count_in_their_order(node: FakeMachine):
    converge(node, nccl, arguments(ib_hca=["mlx5_1", "rocep24s0"]), check=False)
    assert body(node)[0] == "NCCL_IB_HCA==mlx5_1,rocep24s0"


def test_listed_names_that_another_device_could_get_are_warned_of(node: FakeMachine):
    for name in ("mlx5_1", "mlx5_2", "rail0"):
        node.put(f"/sys/class/infiniband/{name}/node_guid", "")
    (said,) = converge(node, nccl, arguments(ib_hca=["mlx5_1", "rail0"]), check=True)["warnings"]
    assert said.startswith("nccl_ib_hca: the kernel counts mlx5_1, and also mlx5_2: without one")
    assert not converge(node, nccl, arguments(ib_hca=["rail0"]), check=True)["warnings"]
    assert not converge(node, nccl, arguments(), check=True)["warnings"]


def test_index_of_a_gid_is_written_where_that_is_roce_v2(node: FakeMachine):
    converge(node, nccl, arguments(version="2.20", ib_gid_index=1), check=False)
    assert body(node)[2] == "NCCL_IB_GID_INDEX=1"


def test_gid_that_may_come_is_waited_for(node: FakeMachine):
    with pytest.raises(NotYet, match=r"rocep24s0: there is no GID 3 \(.*/types/3\)"):
        converge(node, nccl, arguments(ib_gid_index=3), check=True)


def test_device_that_may_come_is_waited_for(node: FakeMachine):
    with pytest.raises(NotYet, match=r"mlx5_9: .*no such RDMA device; .* has mlx5_1, rocep24s0"):
        converge(node, nccl, arguments(ib_hca=["mlx5_9"]), check=True)
    with pytest.raises(NotYet, match="rail 0: there is no RDMA device on eno1"):
        converge(node, nccl, arguments(rails=[{"netdev": "eno1"}]), check=True)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"version": "new"}, "nccl_version: 'new' is not a version"),
        ({"version": "2.20.5"}, r"NCCL 2\.20 cannot choose a GID"),
        ({"ib_tc": 256}, "nccl_ib_tc is 256, expected 0 to 255"),
        ({"ib_gid_index": -2}, "nccl_ib_gid_index is -2"),
        ({"ib_gid_index": 0}, r"rocep24s0: GID 0 is IB/RoCE v1 \(/sys.*\), expected RoCE v2"),
        ({"kind": "infiniband", "ib_sl": 16}, "nccl_ib_sl is 16"),
        ({"ib_address_range": "198.18.0.1/15"}, r"is not a network of IPv4.*198\.18\.0\.0/15"),
        ({"ib_address_range": "2001:db8::/32"}, "is not a network of IPv4"),
        ({"socket_ifname": "mlx5_0"}, "'mlx5_0' leaves no network device; .* has eno1, ens1, ens2"),
        ({"socket_ifname": "=ens"}, "leaves no network device"),
        ({"socket_ifname": "^en"}, "leaves no network device"),
        ({"socket_ifname": "ens1, ens2"}, "leaves no network device"),
        ({"environment": {"NCCL_IB_TC": 1}}, "has a setting of its own: write nccl_ib_tc"),
        ({"environment": {"NCCL_DEBUG": True}}, "NCCL_DEBUG needs a number or a text"),
        ({"environment": {"export NCCL_DEBUG": 1}}, "'export NCCL_DEBUG' is not the name"),
        ({"environment": {"NCCL_DEBUG": "INFO "}}, "outer blanks become part of the value"),
        ({"environment": {"NCCL_DEBUG": '"INFO"'}}, "quotes and outer blanks"),
        ({"environment": {"NCCL_DEBUG": "INFO # all"}}, "a comment behind the value"),
        ({"environment": {"NCCL_DEBUG": "INFO\nNCCL_IB_TC=0"}}, "does not print"),
        ({"environment": {"NCCL_TOPO_FILE": "/" * 1024}}, "NCCL cuts it after 1023"),
    ],
)
def test_wrong_value_is_refused_before_anything_is_written(
    node: FakeMachine, given: dict[str, Any], message: str
):
    node.put(CONF, OLD)
    with pytest.raises(Refused, match=message):
        converge(node, nccl, arguments(**given), check=False)
    assert node.read(CONF) == OLD
    assert not backups(node)


@pytest.mark.parametrize("choice", ["=ens1,eno1", "ens", "^docker", "^=ens1"])
def test_choice_of_network_devices_that_leaves_one_is_taken(node: FakeMachine, choice: str):
    converge(node, nccl, arguments(socket_ifname=choice), check=False)
    assert f"NCCL_SOCKET_IFNAME={choice}" in body(node)


def test_file_by_hand_is_kept_as_a_backup(node: FakeMachine):
    node.put(CONF, OLD)
    result = converge(node, nccl, arguments(), check=False)
    assert body(node) == ROCE
    assert [node.read(f"/etc/{name}") for name in backups(node)] == [OLD]
    assert {each["setting"]: each["wanted"] for each in result["changes"]} == {
        "content": "present",
        "NCCL_IB_HCA": "=rocep24s0,mlx5_1",
        "NCCL_IB_GID_INDEX": "absent",
        "NCCL_IB_TC": "106",
        "NCCL_SOCKET_IFNAME": "absent",
        "NCCL_IB_ADDR_FAMILY": "AF_INET",
        "NCCL_CROSS_NIC": "0",
    }
    assert not converge(node, nccl, arguments(), check=False)["changed"]


def test_edited_file_of_ours_is_kept_as_a_backup_too(node: FakeMachine):
    converge(node, nccl, arguments(), check=False)
    edited = (node.read(CONF) or "").replace("106", "0")
    node.put(CONF, edited)
    assert converge(node, nccl, arguments(), check=False)["changed"]
    assert body(node) == ROCE
    assert [node.read(f"/etc/{name}") for name in backups(node)] == [edited]


def test_line_ends_of_windows_are_repaired(node: FakeMachine):
    converge(node, nccl, arguments(), check=False)
    path = Path(node.path(CONF))
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert converge(node, nccl, arguments(), check=False)["changed"]
    assert b"\r" not in path.read_bytes()
    (backup,) = backups(node)
    assert b"=106\r\n" in Path(node.path(f"/etc/{backup}")).read_bytes()


def test_changed_site_makes_no_backup(node: FakeMachine):
    converge(node, nccl, arguments(), check=False)
    result = converge(node, nccl, arguments(ib_tc=104), check=False)
    assert [(each["setting"], each["seen"]) for each in result["changes"]] == [
        ("NCCL_IB_TC", "106")
    ]
    assert not backups(node)


def test_each_backup_stays(node: FakeMachine):
    for text in (OLD, "NCCL_DEBUG=INFO\n", OLD):
        node.put(CONF, text)
        converge(node, nccl, arguments(), check=False)
    assert sorted(node.read(f"/etc/{name}") or "" for name in backups(node)) == [
        "NCCL_DEBUG=INFO\n",
        OLD,
    ]


def test_run_cut_after_the_backup_is_finished_by_the_next(
    node: FakeMachine, monkeypatch: pytest.MonkeyPatch
):
    node.put(CONF, OLD)
    write = node.write

    def cut(name: str, text: str, mode: int = 0o644) -> None:
        if name == CONF:
            raise NodeError("killed")
        write(name, text, mode)

    monkeypatch.setattr(node, "write", cut)
    with pytest.raises(NodeError, match="killed"):
        converge(node, nccl, arguments(), check=False)
    assert node.read(CONF) == OLD
    monkeypatch.setattr(node, "write", write)
    converge(node, nccl, arguments(), check=False)
    assert body(node) == ROCE
    assert [node.read(f"/etc/{name}") for name in backups(node)] == [OLD]


def test_other_variables_are_kept_on_request(node: FakeMachine):
    node.put(CONF, "# by hand\n" + OLD + "NCCL_DEBUG=INFO\nNCCL_DEBUG=WARN\nSHARP_COLL_LOG=3\n")
    given = arguments(conf_existing="merge", environment={"NCCL_IB_TIMEOUT": 22})
    converge(node, nccl, given, check=False)
    kept = [conf.KEPT, "NCCL_DEBUG=INFO", "SHARP_COLL_LOG=3"]
    assert body(node) == [*ROCE, "NCCL_IB_TIMEOUT=22", *kept]
    assert len(backups(node)) == 1
    assert not converge(node, nccl, given, check=False)["changed"]


def test_kept_variables_stay_when_the_site_changes(node: FakeMachine):
    node.put(CONF, "NCCL_DEBUG=INFO\nNCCL_IB_TIMEOUT=20\n")
    merge = arguments(conf_existing="merge", environment={"NCCL_IB_RETRY_CNT": 7})
    converge(node, nccl, merge, check=False)
    moved = arguments(conf_existing="merge", environment={"NCCL_DEBUG": "WARN"})
    converge(node, nccl, moved, check=False)
    assert body(node) == [*ROCE, "NCCL_DEBUG=WARN", conf.KEPT, "NCCL_IB_TIMEOUT=20"]
    converge(node, nccl, arguments(), check=False)
    assert body(node) == ROCE


@pytest.mark.parametrize("line", ["export NCCL_DEBUG=INFO", "NCCL_DEBUG=INFO ", "NCCL_DEBUG=I\r"])
def test_kept_line_that_does_not_do_what_it_looks_like_is_refused(node: FakeMachine, line: str):
    node.put(CONF, f"# by hand\n{line}\n")
    with pytest.raises(Refused, match=r"^/etc/nccl.conf:2: .*; or remove the line$"):
        converge(node, nccl, arguments(conf_existing="merge"), check=False)
    assert node.read(CONF).splitlines()[0] == "# by hand"  # type: ignore[union-attr]


def test_what_counts_more_is_named(node: FakeMachine):
    node.put("/etc/environment", 'PATH="/bin" # x\nexport NCCL_IB_TC="0"\nNCCL_CROSS_NIC=0\n')
    node.put("/etc/passwd", "root:x:0:0::/root:/bin/sh\nalice:x:1:1::/home/alice:/bin/sh\nx\n")
    node.put("/home/alice/.nccl.conf", "NCCL_DEBUG=INFO\nNCCL_IB_HCA=mlx5\n")
    result = converge(node, nccl, arguments(), check=False)
    assert result["warnings"] == [
        "/etc/environment:2: sets NCCL_IB_TC to 0, which overrides /etc/nccl.conf, "
        "expected 106: remove the line",
        "/home/alice/.nccl.conf:2: sets NCCL_IB_HCA to mlx5, which overrides "
        "/etc/nccl.conf, expected =rocep24s0,mlx5_1: remove the line",
    ]
    again = converge(node, nccl, arguments(), check=False)
    assert not again["changed"]
    assert again["warnings"] == result["warnings"]


def test_file_that_the_environment_names_takes_the_users_place(node: FakeMachine):
    node.put("/etc/environment", "NCCL_CONF_FILE=/opt/nccl.conf\n")
    node.put("/opt/nccl.conf", "NCCL_IB_TC=8\n")
    node.put("/etc/passwd", "root:x:0:0::/root:/bin/sh\n")
    node.put("/root/.nccl.conf", "NCCL_IB_TC=9\n")
    (said,) = converge(node, nccl, arguments(), check=False)["warnings"]
    assert said.startswith("/opt/nccl.conf:1: sets NCCL_IB_TC to 8")
    (said,) = converge(node, nccl, arguments(version="2.22"), check=False)["warnings"]
    assert said.startswith("/root/.nccl.conf:1: sets NCCL_IB_TC to 9")


def test_users_file_that_cannot_be_read_is_named(node: FakeMachine):
    node.put("/etc/passwd", "root:x:0:0::/root:/bin/sh\n")
    node.put("/root/.nccl.conf")
    read = node.read

    def refuse(name: str) -> str | None:
        if name == "/root/.nccl.conf":
            raise NodeError(f"{name} cannot be read: Permission denied")
        return read(name)

    node.read = refuse  # type: ignore[method-assign]
    (said,) = converge(node, nccl, arguments(), check=True)["warnings"]
    assert said.endswith("so it is unknown whether it overrides /etc/nccl.conf")


def test_users_pipe_is_not_read(node: FakeMachine):
    node.put("/etc/passwd", "eve:x:1:1::/home/eve:/bin/sh\n")
    Path(node.path("/home/eve")).mkdir(parents=True)
    os.mkfifo(node.path("/home/eve/.nccl.conf"))
    assert converge(node, nccl, arguments(), check=True)["warnings"] == []


def test_settings_of_their_own_are_those_of_the_contract():
    assert {**nccl.OWN, **nccl.TUNER} == contract._OWN
