"""Sites that exist and sites that are shipped are valid; wrong variants are refused."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import yaml

from rdmaprov import contract
from rdmaprov.cli import run
from rdmaprov.inventory import Fleet, load_site
from rdmaprov.lab import model, shapes, site
from rdmaprov.lab.accel import Accel
from rdmaprov.lab.layout import Layout
from rdmaprov.lab.model import Lab
from rdmaprov.resources import data_dir

FIXTURES = Path(__file__).parents[2] / "fixtures"
SITES = sorted(path for path in (FIXTURES / "sites").iterdir() if path.is_dir())


@dataclass(frozen=True)
class Variant:
    """A site with one text replaced, and the problem that must be found in it."""

    id: str
    site: str
    old: str
    new: str
    rule: str
    variable: str
    node: str
    says: str
    file: str = "group_vars/all.yml"

    def write(self, directory: Path) -> Path:
        site = directory / self.site
        shutil.copytree(FIXTURES / "sites" / self.site, site)
        text = (site / self.file).read_text()
        assert text.count(self.old) == 1, f"{self.site}/{self.file}: {self.old}"
        (site / self.file).write_text(text.replace(self.old, self.new))
        return site


VARIANTS = [
    Variant(**entry) for entry in yaml.safe_load((FIXTURES / "site_variants.yml").read_text())
]


def load(name: str) -> Fleet:
    return load_site(FIXTURES / "sites" / name)


@pytest.mark.parametrize("site", SITES, ids=lambda site: site.name)
def test_site_is_valid_but_for_what_it_waives(site: Path):
    fleet = load_site(site)
    problems, waived = contract.judge(fleet)
    assert [problem.text(site) for problem in problems] == []
    listed = {entry["rule"] for node in fleet.nodes for entry in node.get("fabric_waivers")}
    assert {each.problem.rule for each in waived} == listed
    assert 2 <= len(fleet.nodes) <= 36


@pytest.mark.parametrize("site", SITES, ids=lambda site: site.name)
def test_check_passes(site: Path):
    assert run(["check", str(site)]) == 0


@pytest.mark.parametrize("site", SITES, ids=lambda site: site.name)
@pytest.mark.parametrize("file", ["hosts.yml", "group_vars/all.yml"])
def test_site_names_its_references_first(site: Path, file: str):
    comment = re.match(r"---\n((?:#.*\n)+)", (site / file).read_text())
    assert comment
    assert "https://" in comment[1]
    assert "From there" in comment[1]


def test_production_page_lists_every_site():
    page = (FIXTURES.parents[1] / "docs" / "production.md").read_text()
    listed = re.findall(r"\(\.\./tests/fixtures/sites/([\w-]+)/", page)
    assert sorted(listed) == [site.name for site in SITES]


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.id)
def test_wrong_variant_is_refused(variant: Variant, tmp_path: Path):
    site = variant.write(tmp_path)
    problems, _ = contract.judge(load_site(site))
    matching = [p for p in problems if (p.rule, p.variable) == (variant.rule, variant.variable)]
    assert matching, [problem.text(site) for problem in problems]
    texts = [problem.text(site) for problem in matching if variant.node in problem.hosts]
    assert any(variant.says in text for text in texts), texts


def test_variants_are_many_and_of_every_site():
    assert len({variant.id for variant in VARIANTS}) == len(VARIANTS) >= 20
    assert {variant.site for variant in VARIANTS} == {site.name for site in SITES}


def test_storage_rails_are_no_compute_rails():
    node = load("dgx-h100-superpod").nodes[0]
    assert [len(node.compute_rails), len(node.rails)] == [8, 10]


def test_hosts_that_are_no_nodes_are_left_out():
    names = {node.name for node in load("mixed-fleet").nodes}
    assert names == {f"h100-0{n}" for n in range(1, 9)} | {f"a100-0{n}" for n in range(1, 5)}


def test_racks_are_nvlink_domains():
    nodes = load("gb200-nvl72").nodes
    domains = [node.get("fabric_nvlink_domain") for node in nodes]
    assert {domain: domains.count(domain) for domain in domains} == {"rack1": 18, "rack2": 18}


def test_lossless_priorities_of_oracle_have_pfc():
    assert sorted(load("oci-h100").nodes[0].get("roce_qos_pfc_priorities")) == [0, 5]


def test_spectrum_x_is_marked_without_ecn_bits():
    node = load("spectrum-x").nodes[0]
    assert (node.get("roce_qos_tos"), node.get("nccl_ib_tc")) == (96, 96)


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
