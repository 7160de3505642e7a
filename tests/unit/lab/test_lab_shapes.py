"""A shape is one file, and a lab of it has its machines, its site and its images."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from rdmaprov.cli import run
from rdmaprov.errors import UnreachableError, UsageError
from rdmaprov.lab import login, model, shapes, site
from rdmaprov.lab.accel import Accel
from rdmaprov.lab.layout import Layout
from rdmaprov.lab.model import Lab
from rdmaprov.lab.qemu import Machine
from rdmaprov.lab.request import LabRequest

DOCS = Path(__file__).parents[3] / "docs"


def create(tmp_path, **options):
    layout = Layout(tmp_path / "lab", tmp_path / "cache")
    (tmp_path / "lab").mkdir(exist_ok=True)
    return LabRequest(accel=Accel.TCG, **options).create(layout, print)


def argv(tmp_path, node, **options):
    paths = dict.fromkeys(("torch_disk", "authorized_keys", "host_key"), tmp_path / "file")
    machine = Machine(
        node=node,
        directory=tmp_path / "node1",
        accel=Accel.TCG,
        memory_mib=2048,
        switch=tmp_path / "switch",
        **paths,
        **options,
    )
    return machine.argv()


def test_unknown_shape_is_refused_with_the_list(tmp_path, capsys):
    assert run(["lab", "--dir", str(tmp_path / "lab"), "up", "--shape", "bnod"]) == 2
    said = capsys.readouterr().err
    assert "there is no shape 'bnod'" in said
    assert ", ".join(shapes.catalogue()) in said
    assert not (tmp_path / "lab").exists()


@pytest.mark.parametrize("shape", shapes.catalogue().values(), ids=lambda shape: shape.name)
def test_shape_is_listed_by_the_program_and_the_docs(shape, capsys):
    assert run(["lab", "shapes"]) == 0
    listed = capsys.readouterr().out
    assert f"{shape.name}: {shape.title}\n" in listed
    assert f"| `{shape.name}` | {shape.title} |\n" in (DOCS / "lab.md").read_text()


def test_plain_lab_has_no_factory_script(tmp_path):
    assert shapes.find(None).script() == ""
    assert not any(
        "/factory,file=" in word for word in argv(tmp_path, model.new_node("node1", 40001, 2))
    )


def test_shape_is_kept_and_another_one_refused(tmp_path):
    made = create(tmp_path, shape="renamed")
    assert Lab.load(tmp_path / "lab" / "lab.json") == made
    LabRequest().refuse_difference(made)
    LabRequest(shape="renamed").refuse_difference(made)
    with pytest.raises(UsageError, match="--shape bond: the existing lab has renamed"):
        LabRequest(shape="bond").refuse_difference(made)


def test_bond_has_two_nics_on_one_plane_and_one_rdma_device(tmp_path):
    made = create(tmp_path, shape="bond")
    assert [rail.rdma for rail in made.nodes[0].rails] == ["mlx5_bond_0", "mlx5_bond_1"]
    words = argv(tmp_path, made.nodes[0], factory=tmp_path / "factory.sh")
    planes = [word.rpartition("/")[2] for word in words if word.startswith("dgram,")]
    assert planes == ["rail0", "rail0", "rail1", "rail1"]
    assert len({mac for rail in made.nodes[0].rails for mac in rail.macs}) == 4
    rails = " ".join("+".join(rail.macs) for rail in made.nodes[0].rails)
    assert any(word.endswith(f"/rails,string={rails}") for word in words)
    assert any(word.endswith(f"/factory,file={tmp_path}/factory.sh") for word in words)


def test_replaced_node_keeps_its_kind(tmp_path):
    old = create(tmp_path, shape="bond").nodes[1]
    new = model.replacement(old)
    assert [len(rail.macs) for rail in new.rails] == [2, 2]
    assert (new.name, new.port) == (old.name, old.port)
    assert not {mac for rail in new.rails for mac in rail.macs} & set(old.rails[0].macs)


def test_more_nics_than_slots_are_refused(tmp_path):
    with pytest.raises(UsageError, match="--rails 5: with 2 NICs each"):
        create(tmp_path, shape="bond", rails=5)


def test_numa_has_all_rails_on_the_second_numa_node(tmp_path):
    words = argv(tmp_path, model.new_node("node1", 40001, 2), numa=shapes.find("numa").numa)
    bridges = [word for word in words if word.startswith("pxb-pcie")]
    assert [",numa_node=1," in word for word in bridges] == [True, True]


def test_storage_has_its_last_rail_for_storage():
    use = [entry.get("use") for entry in shapes.find("storage").entries(1, ["a", "b", "c"])]
    assert use == [None, None, "storage"]


def test_site_names_the_vlans_and_not_their_nics():
    assert shapes.find("vlan").entries(2, ["ens1", "ens2"]) == [
        {"netdev": "ens1.100", "address": "198.18.0.2/24", "vlan": True},
        {"netdev": "ens2.101", "address": "198.18.1.2/24", "vlan": True},
    ]


def test_nodes_take_several_shapes_in_turn(tmp_path):
    made = create(tmp_path, shape="bond,renamed,storage", nodes=4)
    assert [node.rails[0].rdma for node in made.nodes] == [
        "mlx5_bond_0",
        "mlx5_0",
        "mlx5_0",
        "mlx5_bond_0",
    ]
    assert {len(node.rails) for node in made.nodes} == {3}  # as one of them wants
    kinds = shapes.of_nodes(made.shape, 4)
    assert [shape.name for shape in kinds] == ["bond", "renamed", "storage", "bond"]
    made = replace(made, site=str(tmp_path / "site"))
    hosts = yaml.safe_load(
        site.write(Layout(tmp_path / "lab", tmp_path / "cache"), made).read_text()
    )
    rails = [host["fabric_rails"][2].get("use") for host in hosts["lab"]["hosts"].values()]
    assert rails == [None, None, "storage", None]


def test_nodes_of_two_suites_have_two_images_and_a_replaced_one_keeps_its_own(tmp_path):
    made = create(tmp_path, shape="bookworm,trixie", nodes=3)
    suites = [made.image_of(node.name).partition("-")[0] for node in made.nodes]
    assert suites == ["bookworm", "trixie", "bookworm"]
    assert Lab.load(tmp_path / "lab" / "lab.json") == made
    assert made.with_node(model.replacement(made.nodes[1])).image_of("node2") == made.image_of(
        "node2"
    )


def test_more_shapes_than_nodes_are_refused(tmp_path, capsys):
    words = ["--shape", "bond,numa,vlan"]
    assert run(["lab", "--dir", str(tmp_path / "lab"), "up", *words]) == 2
    assert "there are 3 shapes and 2 nodes" in capsys.readouterr().err
    assert not (tmp_path / "lab").exists()


@pytest.mark.parametrize(("shape", "limit_s"), [("vlan", 480), ("numa", 240)])
def test_node_that_boots_twice_gets_the_time_of_two_boots(shape, limit_s, tmp_path, monkeypatch):
    now = itertools.count(step=80)
    monkeypatch.setattr("rdmaprov.lab.login.time.monotonic", lambda: float(next(now)))
    monkeypatch.setattr("rdmaprov.lab.login.time.sleep", lambda _: None)
    monkeypatch.setattr("rdmaprov.lab.ssh.answers", lambda *_: False)
    waiting = login.Login(Layout(tmp_path, tmp_path), is_running=lambda _: True)
    node = model.new_node("node1", 40001, 2)
    with pytest.raises(UnreachableError, match=f"no answer over ssh within {limit_s} s"):
        waiting.wait_for_boot(node, shapes.find(shape).boots)
    assert next(now) == limit_s + 160  # one look before the first, one after the last
