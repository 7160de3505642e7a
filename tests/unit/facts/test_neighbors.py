"""Where a node's neighbours are read, who of several it is, and what two nodes tell together."""

from dataclasses import replace

import pytest
from testinfra.backend.base import CommandResult
from tests.tables import cases
from tests.unit.helpers import sites
from tests.validate.switches import announced

from rdmaprov.facts import CouldNotTell, neighbors
from rdmaprov.facts.lldp_unit import LldpNeighbor
from rdmaprov.facts.neighbors import FRAMES, Neighborhood
from rdmaprov.inventory import load_site
from rdmaprov.node import lldp_frames
from rdmaprov.validate import cabling
from rdmaprov.validate.cabling import CabledRail
from rdmaprov.validate.neighbor import PortNeighbor

LEAF = LldpNeighbor(
    "8a:78:6e:77:a8:04", "Ethernet1/1", 120, "gpu1-rail0", "leaf01.dc.example", forwards=True
)
ABSENT = "[WARN/control] unable to connect to socket /run/lldpd.socket: No such file or directory"
FRAME = "0180c200000e02000000000188cc0207040011223344550403056531060200780000"
NONE = Neighborhood("", "", {}, {})


class Says:
    """A host whose programs print this, by a part of their command: status, output, errors."""

    def __init__(self, **programs):
        self.programs = programs
        self.options = {}

    def run(self, command, *_, **options):
        program = next(name for name in ("lldpctl", "lldptool", "python3") if name in command)
        program += "_version" * ("lldpctl -v" in command)
        rc, out, err = self.programs.get(program, (127, "", ""))
        self.options = options
        return CommandResult(None, 0, command, f"{out}rdmaprov-end {rc}\n", err)


def label(around, netdev):
    """Return how a message names a port's neighbour."""
    seen = around.of(netdev)
    assert seen is not None
    return seen.label


def lldpd(version):
    text = announced({"ens1": ("leaf-r0", "swp1")})
    return {"lldpctl": (0, text + "\n", ""), "lldpctl_version": (0, version + "\n", "")}


def test_lldpd_tells_and_nobody_listens():
    around = neighbors.read(Says(**lldpd("1.0.16")), listens=True)
    assert (around.source, around.gaps, around.at("ens1")) == ("lldpd", "", "lldpctl ens1")
    assert label(around, "ens1") == "leaf-r0 swp1"
    assert around.of("ens2") is None


def test_lldpd_that_drops_dcbx_is_no_proof_of_silence():
    said = lldpd("1.0.13")
    assert "lldpd 1.0.13 drops DCBX" in neighbors.read(Says(**said), listens=False).gaps
    host = Says(**said, python3=(0, f"port ens1\nframe ens1 {FRAME}\n", ""))
    assert neighbors.read(host, listens=True).source == FRAMES


@pytest.mark.parametrize("said", [{}, {"lldpctl": (1, "", ABSENT)}, {"lldptool": (3, "", "")}])
def test_without_a_daemon_only_a_plan_makes_it_listen(said):
    assert neighbors.read(Says(**said), listens=False) == replace(NONE, gaps="no LLDP daemon runs")
    host = Says(**said, python3=(0, f"port ens1\nport ens2\nframe ens1 {FRAME}\n", ""))
    around = neighbors.read(host, listens=True)
    assert label(around, "ens1") == "00:11:22:33:44:55 e1"
    assert around.of("ens2") is None
    assert host.options == {"time_limit_s": neighbors.LISTEN_S + 14, "everywhere": True}


def test_what_cannot_be_read_is_unknown():
    for said in (
        {"lldpctl": (126, "", "sh: 1: lldpctl: Permission denied")},
        {"lldpctl": (0, "<html>\n", "")},
        {**lldpd("what"), "python3": (0, "", "")},
        {"python3": (1, "", "Traceback\nPermissionError: no")},
        {"python3": (0, "frame ens1 zz\n", "")},
        {"python3": (0, "hello\n", "")},
    ):
        with pytest.raises(CouldNotTell):
            neighbors.read(Says(**said), listens=True)


def test_port_at_which_nobody_may_listen_is_unknown():
    said = "port ens1\nerror ens1 Operation not permitted\n"
    around = neighbors.read(Says(python3=(0, said, "")), listens=True)
    with pytest.raises(CouldNotTell, match="Operation not permitted; requires root"):
        around.of("ens1")


def test_switch_is_taken_before_a_host_on_the_same_port():
    card = LldpNeighbor("50:6b:4b:f6:1e:b3", "50:6b:4b:f6:1e:b1", 48)
    gone = replace(LEAF, port="Ethernet1/9", ttl_s=0)
    again = replace(LEAF, port_description="later")
    assert replace(NONE, neighbors={"ens1": [card, gone, LEAF, again]}).of("ens1") == again
    with pytest.raises(CouldNotTell, match="ens1 has 2 neighbours: leaf01"):
        replace(NONE, neighbors={"ens1": [LEAF, replace(LEAF, port="e7")]}).of("ens1")


def put(net, name, *, carrier="1", kind="1", uevent="", device=(), port=""):
    """Have a network device; `device` has what is in its card's directory."""
    files = {"type": kind, "carrier": carrier, "uevent": uevent, "phys_port_name": port}
    (net / name).mkdir(parents=True)
    for file, text in files.items():
        (net / name / file).write_text(text + "\n")
    for each in device:
        (net / name / "device" / each).mkdir(parents=True)


def test_ports_to_listen_at_are_those_of_cards_with_rdma(tmp_path, monkeypatch):
    monkeypatch.setattr(lldp_frames, "NET", str(tmp_path))
    card = ("infiniband",)
    put(tmp_path, "ens1", device=card)
    put(tmp_path, "ens2", device=card, carrier="0")
    put(tmp_path, "ens1v0", device=("infiniband", "physfn"))
    put(tmp_path, "ens1npf0vf0", device=card, port="pf0vf0")
    put(tmp_path, "ens3", device=("power",))
    put(tmp_path, "ens4", device=("power",))
    (tmp_path / "ens4/master/bonding").mkdir(parents=True)
    put(tmp_path, "ib0", device=card, kind="32")
    put(tmp_path, "veth1")
    put(tmp_path, "bond0", uevent="DEVTYPE=bond")
    assert lldp_frames.ports() == ["ens1", "ens4"]


def test_without_rdma_all_that_have_a_cable_are_listened_at(tmp_path, monkeypatch):
    monkeypatch.setattr(lldp_frames, "NET", str(tmp_path))
    put(tmp_path, "rail0")
    put(tmp_path, "br0", uevent="DEVTYPE=bridge")
    put(tmp_path, "lo", kind="772")
    assert lldp_frames.ports() == ["rail0"]


@pytest.mark.parametrize(
    ("planned", "is_it"), cases(__file__, "planned_name_is_the_switch_with_or_without_its_domain")
)
def test_planned_name_is_the_switch_with_or_without_its_domain(planned, is_it):
    assert cabling.is_switch(planned, LEAF) is is_it


def test_planned_port_is_its_id_or_its_description():
    assert cabling.is_port("ethernet1/1", LEAF)
    assert cabling.is_port("gpu1-rail0", LEAF)
    assert not cabling.is_port("Ethernet1/10", LEAF)
    assert not cabling.is_switch("leaf01", replace(LEAF, system=""))


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    return load_site(sites.write(tmp_path_factory.mktemp("site"), sites.GOOD), None).nodes[0]


def cabled(node, group="", **switches):
    """Return rails: by the node's name, the switches of its rails, as letters."""
    found = []
    for name, letters in switches.items():
        own = replace(node, name=name, values={**node.values, "fabric_leaf": group})
        for index, letter in enumerate(letters):
            rail = replace(node.rails[0], index=index)
            port = PortNeighbor(own, f"ens{index}", LEAF, NONE)
            found.append(CabledRail(own, rail, port, letter))
    return found


def told(astray):
    return [(a.cabled.node.name, a.cabled.rail.index, a.seen, a.expected, a.why) for a in astray]


def test_odd_node_of_a_group_is_named_with_what_it_is_swapped_with(node):
    rails = cabled(node, "su1", n1="AB", n2="BA", n3="AB")
    why = "as rail {} of 2 of 3 nodes of fabric_leaf su1"
    assert told(cabling.astray_of_groups(rails)) == [
        ("n2", 0, "B, swapped with rail 1", "A", why.format(0)),
        ("n2", 1, "A, swapped with rail 0", "B", why.format(1)),
    ]
    assert list(cabling.split_groups(rails)) == []


def test_group_without_a_majority_accuses_nobody(node):
    rails = cabled(node, "su1", n1="AB", n2="CB")
    assert told(cabling.astray_of_groups(rails)) == []
    assert [places for _, places in cabling.split_groups(rails)] == ["A (n1), C (n2)"]


def test_rails_of_a_node_are_compared_where_nothing_is_planned(node):
    good = {"n1": "AB", "n3": "AB", "n4": "CD", "n5": "CD"}
    assert told(cabling.astray_of_switches(cabled(node, **good))) == []
    why = "as it has rail {} of 2 of 3 nodes"
    expected = "one with rail {} of other nodes"
    assert told(cabling.astray_of_switches(cabled(node, **good, n2="AA"))) == [
        ("n2", 1, "A", expected.format(1), why.format(0))
    ]
    assert told(cabling.astray_of_switches(cabled(node, **good, n2="BA"))) == [
        ("n2", 1, "A", expected.format(1), why.format(0)),
        ("n2", 0, "B", expected.format(0), why.format(1)),
    ]


def test_nodes_with_all_rails_on_one_switch_are_alike(node):
    """Nodes with another number of rails on the same switch say nothing about each other."""
    rails = cabled(node, n1="AA", n2="AA", n3="BB", n4="BB", storage="A")
    assert told(cabling.astray_of_switches(rails)) == []
