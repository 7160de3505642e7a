"""The sites that are shipped are good ones."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from rdmaprov.cli import run
from rdmaprov.inventory import load_site
from rdmaprov.lab.site import rail_address
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


def test_lab_with_hosts_is_silent_and_green(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    site = lab(tmp_path)
    hosts = {
        f"node{number}": {
            "ansible_port": 20000 + number,
            "fabric_rails": [
                {"netdev": f"ens{rail + 1}", "address": rail_address(rail, number)}
                for rail in range(2)
            ],
        }
        for number in (1, 2)
    }
    group = {"hosts": hosts, "vars": {"ansible_host": "127.0.0.1", "ansible_user": "rdmaprov"}}
    (site / "hosts.yml").write_text(yaml.safe_dump({"lab": group}))
    assert run(["check", str(site)]) == 0
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
