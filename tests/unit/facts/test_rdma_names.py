"""RDMA names that stay with their card, and what the kernel shows of a port in its subnet."""

import re

import pytest
from tests.tables import cases

from rdmaprov.facts import CouldNotTell, rdma_names, subnet_port
from rdmaprov.facts.text import Files
from rdmaprov.node import rail_counters

RULE = 'SUBSYSTEM=="infiniband", PROGRAM="rdma_rename %k NAME_FIXED {}"\n'


@pytest.mark.parametrize(("name", "counter"), cases(__file__, "kernel_names_count"))
def test_kernel_names_count(name: str, counter: str):
    assert rdma_names.counter(name) == counter


@pytest.mark.parametrize(("name", "is_by_place"), cases(__file__, "names_by_place_are_known"))
def test_names_by_place_are_known(name: str, is_by_place: bool):
    assert rdma_names.is_by_place(name) is is_by_place


DIRECTORIES = {"etc": "/etc", "run": "/run", "usr": "/usr/lib"}


def rules(**files: str) -> rdma_names.Renaming:
    """Return what rules do; a name such as etc_a is for /etc/udev/rules.d/a.rules."""
    texts = {}
    for key, text in files.items():
        directory, _, name = key.partition("_")
        texts[f"{DIRECTORIES[directory]}/udev/rules.d/{name}.rules"] = text
    return rdma_names.parse(Files(texts, {}))


def test_rule_of_the_first_directory_counts():
    found = rules(
        etc_a=RULE.format("one") + "#" + RULE.format("two"),
        run_a=RULE.format("three"),
        usr_rdma=RULE.format("four"),
    )
    assert found == rdma_names.Renaming(frozenset({"one", "four"}), by_place=False)


# rdma-core, kernel-boot/rdma-persistent-naming.rules.
DISTRIBUTION = cases(__file__, "distribution")


def test_names_by_place_need_the_rule_that_gives_them():
    assert rules(usr_rdma=DISTRIBUTION).keeps("rocep24s0")
    kernel = DISTRIBUTION.replace("NAME_FALLBACK", "NAME_KERNEL")
    assert not rules(etc_rdma=kernel, usr_rdma=DISTRIBUTION).keeps("rocep24s0")
    assert not rules().keeps("rocep24s0")


def test_kernels_names_need_no_rule():
    assert rules().keeps("mlx5_0")
    assert not rules(usr_rdma=DISTRIBUTION).keeps("roce_rail0")


PORT = "/sys/class/infiniband/mlx5_0/ports/1"
TEXTS = cases(__file__, "texts")


def test_port_has_its_place_in_the_subnet():
    port = subnet_port.parse(Files(TEXTS, {}), "mlx5_0")
    assert (port.lid, port.sm_lid) == (176, 104)
    assert (port.prefix, port.guid) == (0xFE80000000000000, 0x1070FD0300A41F36)
    assert port.pkeys == {0: 0xFFFF, 10: 0x8001}


@pytest.mark.parametrize(("file", "text"), cases(__file__, "odd_value_is_unknown"))
def test_odd_value_is_unknown(file: str, text: str):
    with pytest.raises(CouldNotTell, match=file):
        subnet_port.parse(Files({**TEXTS, f"{PORT}/{file}": text}, {}), "mlx5_0")


@pytest.mark.parametrize("file", ["lid", "sm_lid", "gids/0"])
def test_missing_value_is_unknown(file: str):
    rest = {path: text for path, text in TEXTS.items() if path != f"{PORT}/{file}"}
    with pytest.raises(CouldNotTell, match="does not exist"):
        subnet_port.parse(Files(rest, {}), "mlx5_0")


BYTES, PACKETS = re.compile(r"tx_prio\d_bytes"), re.compile(r"tx_prio\d_(bytes|packets)")
COUNTS = {"hw": ("sent_pkts", "np_cnp_sent")}


@pytest.fixture
def asked(monkeypatch):
    """Provide the patterns that a device's statistics were asked with."""
    found = []
    monkeypatch.setattr(rail_counters, "Ethtool", lambda _netdev, wanted: found.append(wanted))
    return found


@pytest.mark.parametrize(("counter", "wanted"), [("sent_pkts", PACKETS), ("np_cnp_sent", BYTES)])
def test_packets_by_priority_are_read_where_rdma_is_counted_in_packets(
    tmp_path, asked, counter, wanted
):
    port = tmp_path / "sys/class/infiniband/mlx5_0/ports/1"
    for directory in ("hw_counters", "gid_attrs/ndevs"):
        (port / directory).mkdir(parents=True)
    (port / "gid_attrs/ndevs/0").write_text("ens1\n")
    (port / "hw_counters" / counter).write_text("7\n")
    (tmp_path / "sys/class/net/ens1").mkdir(parents=True)
    rail = rail_counters.RailCounters(
        {"netdev": "ens1", "pci": ""}, 0, COUNTS, {}, BYTES, str(tmp_path), PACKETS
    )
    assert asked == [wanted]
    assert f"0/hw.{counter}" in dict(rail.fast)
    rail.close()
