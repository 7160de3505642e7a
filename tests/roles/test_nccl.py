"""nccl.conf: derived from the fabric, with a tuner and partitions, never taken from its writer."""

import os
from pathlib import Path
from typing import Any

import pytest
from plugins.module_utils.converge import converge
from plugins.module_utils.machine import NodeError
from plugins.module_utils.nccl import conf, tuner
from plugins.module_utils.plan import Refused
from plugins.module_utils.roles import nccl
from tests.roles.fake import FakeMachine
from tests.roles.nccl_node import CONF, OLD, ROCE, arguments, backups, body, two_rails

from rdmaprov.contract import nccl as contract
from rdmaprov.contract.nccl import is_library


@pytest.fixture
def node(machine: FakeMachine) -> FakeMachine:
    return two_rails(machine)


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


MOUNTS = "/etc/enroot/mounts.d/90-rdmaprov-nccl.fstab"
ENVIRON = "/etc/enroot/environ.d/90-rdmaprov-nccl.env"


def test_enroots_containers_get_the_file_one_way(node: FakeMachine):
    node.put("/etc/enroot/enroot.conf")
    converge(node, nccl, arguments(enroot="environ"), check=False)
    assert (node.read(ENVIRON) or "").splitlines()[1:] == ROCE
    converge(node, nccl, arguments(enroot="mounts"), check=False)
    assert not node.exists(ENVIRON)
    options = "none x-create=file,bind,ro,nosuid,nodev,noexec,private"
    assert (node.read(MOUNTS) or "").splitlines()[1:] == [f"{CONF} {CONF} {options}"]
    assert not converge(node, nccl, arguments(enroot="mounts"), check=False)["changed"]
    converge(node, nccl, arguments(), check=False)
    assert not node.exists(MOUNTS)


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


def test_sharp_that_is_wanted_turns_collnet_on(node: FakeMachine):
    wanted = arguments(kind="infiniband", ib_tc=0, sharp="wanted")
    converge(node, nccl, wanted, check=False)
    assert "NCCL_COLLNET_ENABLE=1" in body(node)
    converge(node, nccl, {**wanted, "sharp": "off"}, check=False)
    assert not any("COLLNET" in line for line in body(node))


@pytest.mark.parametrize("kind", ["infiniband", "roce"])
def test_adaptive_routing_is_said_where_the_site_says_it(node: FakeMachine, kind: str):
    tc = 106 if kind == "roce" else 0
    for said, line in (("on", ["1"]), ("off", ["0"]), ("auto", [])):
        converge(node, nccl, arguments(kind=kind, ib_tc=tc, adaptive_routing=said), check=False)
        found = [line for line in body(node) if "ADAPTIVE" in line]
        assert found == [f"NCCL_IB_ADAPTIVE_ROUTING={value}" for value in line]


def test_infiniband_has_a_service_level_and_no_gid(node: FakeMachine):
    converge(node, nccl, arguments(kind="infiniband", ib_tc=0, ib_sl=2), check=False)
    assert body(node) == [ROCE[0], "NCCL_IB_SL=2", "NCCL_CROSS_NIC=0"]


@pytest.mark.parametrize(
    ("given", "lines"),
    [
        ({"ib_hca": ["mlx5_1", "rocep24s0"]}, ["NCCL_IB_HCA==mlx5_1,rocep24s0"]),
        ({"version": "2.20", "ib_gid_index": 1}, ["NCCL_IB_GID_INDEX=1"]),
        (
            {"ib_address_family": "ipv6", "ib_address_range": "2001:db8::/32"},
            ["NCCL_IB_ADDR_FAMILY=AF_INET6", "NCCL_IB_ADDR_RANGE=2001:db8::/32"],
        ),
        *(
            ({"socket_ifname": choice}, [f"NCCL_SOCKET_IFNAME={choice}"])
            for choice in ("=ens1,eno1", "ens", "^docker", "^=ens1")
        ),
    ],
)
def test_setting_has_its_lines(node: FakeMachine, given, lines: list[str]):
    converge(node, nccl, arguments(**given), check=False)
    assert set(lines) <= set(body(node))


def test_listed_names_that_another_device_could_get_are_warned_of(node: FakeMachine):
    for name in ("mlx5_1", "mlx5_2", "rail0"):
        node.put(f"/sys/class/infiniband/{name}/node_guid", "")
    (said,) = converge(node, nccl, arguments(ib_hca=["mlx5_1", "rail0"]), check=True)["warnings"]
    assert said.startswith("nccl_ib_hca: the kernel counts mlx5_1, and also mlx5_2: without one")
    assert not converge(node, nccl, arguments(ib_hca=["rail0"]), check=True)["warnings"]
    assert not converge(node, nccl, arguments(), check=True)["warnings"]


@pytest.mark.parametrize("gid", ["fe80::ff:fe00:1", "::ffff:198.18.9.1", "fd00::1"])
def test_index_of_another_addresss_gid_is_refused(node: FakeMachine, gid: str):
    rails = [{"netdev": "ens1", "address": "198.18.0.1/24"}, {"pci": "0000:29:00.0"}]
    path = "/sys/class/infiniband/rocep24s0/ports/1/gids/1"
    node.put(path, gid)
    with pytest.raises(Refused, match=r"rocep24s0/.*gids/1 is .*, expected 198\.18\.0\.1"):
        converge(node, nccl, arguments(rails=rails, ib_gid_index=1), check=True)
    node.put(path, "0000:0000:0000:0000:0000:ffff:c612:0001")
    converge(node, nccl, arguments(rails=rails, ib_gid_index=1), check=True)


def test_value_that_nccl_would_cut_is_refused(node: FakeMachine):
    given = arguments(environment={"NCCL_TOPO_FILE": "/" * 1024})
    with pytest.raises(Refused, match="NCCL cuts it after 1023"):
        converge(node, nccl, given, check=False)


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


def test_run_cut_after_the_backup_is_finished_by_the_next(node, monkeypatch):
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
    assert contract.own_settings() == {**nccl.OWN, **nccl.TUNER}


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
