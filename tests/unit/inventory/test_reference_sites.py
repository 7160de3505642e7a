"""The sites that are shipped are good ones."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from rdmaprov.cli import run
from rdmaprov.inventory import load_site
from rdmaprov.lab import model, shapes, site
from rdmaprov.lab.accel import Accel
from rdmaprov.lab.layout import Layout
from rdmaprov.lab.model import Lab
from rdmaprov.resources import data_dir


@pytest.mark.parametrize("name", ["prod", "ib"])
def test_check_is_silent_and_green(name: str, capsys: pytest.CaptureFixture[str]):
    assert run(["check", str(data_dir("inventory") / name)]) == 0
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""


def lab(tmp_path: Path) -> Path:
    site = tmp_path / "lab"
    shutil.copytree(data_dir("inventory") / "lab", site, ignore=lambda *_: ["hosts.yml"])
    return site


def test_lab_without_hosts_says_what_writes_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert run(["check", str(lab(tmp_path))]) == 3
    assert "run `rdmaprov lab up`, which writes them" in capsys.readouterr().out


@pytest.mark.parametrize("shape", [None, *shapes.catalogue()])
def test_lab_of_each_shape_is_silent_and_green(
    shape: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    wanted = shapes.find(shape)
    rails = range(wanted.rails or model.DEFAULT_RAILS)
    nodes = tuple(
        model.new_node(f"node{number}", 20000 + number, len(rails), wanted.nics).with_netdevs(
            {rail: f"ens{rail + 1}" for rail in rails}
        )
        for number in (1, 2)
    )
    made = Lab("bookworm", 2048, Accel.TCG, "image", "torch", str(lab(tmp_path)), nodes)
    layout = Layout(tmp_path / "state", tmp_path / "cache")
    hosts = site.write(layout, replace(made, shape=shape))
    assert run(["check", str(hosts.parent)]) == 0
    assert capsys.readouterr().out == ""


def test_prod_has_two_racks_of_eight_routed_rails():
    nodes = load_site(data_dir("inventory") / "prod").nodes
    assert len(nodes) == 32
    assert {len(node.rails) for node in nodes} == {8}
    assert {str(node.rails[0].address.network) for node in nodes if node.rails[0].address} == {
        "10.1.0.0/24",
        "10.2.0.0/24",
    }
    assert nodes[0].get("peermem_mode") == "auto"


def test_ib_marks_nothing():
    node = load_site(data_dir("inventory") / "ib").nodes[0]
    assert node.get("nccl_ib_tc") == 0
    assert node.get("fabric_ib_generation") == "NDR"
