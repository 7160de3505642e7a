"""Loopbacks inside of nodes that are this machine, and the check of what nodes answer."""

from __future__ import annotations

import json
import os
import sys
from types import SimpleNamespace

import pytest
from tests.unit.helpers import perftest_standin, verbs_tree
from tests.unit.helpers.discovered import FULL, NDR, device

from rdmaprov.acceptance.ask.shapes import path_step, path_survey
from rdmaprov.acceptance.paths.survey import survey_nodes
from rdmaprov.acceptance.stage_report import StageReport
from rdmaprov.acceptance.stages import host
from rdmaprov.acceptance.stages.host import add_host_paths
from rdmaprov.boundary import RIGHT
from rdmaprov.finding.finding import Finding
from rdmaprov.probe.probe import Probe
from rdmaprov.probe.target import Target


def step(**changes):
    return {"id": 3, "port": 20001, "rc": 0, "why": "", "out": "text\x00", **changes}


@pytest.mark.parametrize(
    "answer",
    [
        [],
        [step(id=4)],
        [step(), step()],
        [step(rc=None)],
        [step(rc=10**9)],
        [step(port=70_000)],
        [step(out="x" * 5000)],
        [step(why="\x1b[31m")],
        [step(more=1)],
        {"id": 3},
    ],
)
def test_what_a_node_says_of_a_step_is_checked(answer):
    assert path_step(frozenset({3}), is_over=True)([step()]) is RIGHT
    assert path_step(frozenset({3}), is_over=True)(answer) is not RIGHT


NONE = {"there": False, "version": "", "help": []}
ANSWER = {
    "programs": {"ib_write_bw": NONE, "ib_write_lat": NONE},
    "peermem": False,
    "numa": [0],
    "rails": [
        {"device": "mlx5_0", "layer": "InfiniBand", "rate": NDR, "gid": -1, "path": [], "numa": -1}
    ],
    "gpus": [{"index": 0, "path": device(1, 1), "numa": 0}],
    "configs": {"0000:01:00.0": "0d00"},
}


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("rails", 0, "device"), "mlx5_0; reboot"),
        (("rails", 0, "device"), "../../etc"),
        (("rails", 0, "gid"), 1 << 20),
        (("rails", 0, "path"), [{"address": "/etc/passwd", "link": FULL}]),
        (("gpus", 0, "index"), "0"),
        (("gpus", 0, "path", 0, "link"), ["\x1b[31m"] * 4),
        (("numa",), [-1]),
        (("configs",), {"0000:01:00.0": "zz"}),
        (("programs",), {"ib_write_bw": NONE}),
        (("programs", "ib_write_bw", "help"), ["x" * 5000]),
    ],
)
def test_what_a_node_says_of_itself_is_checked(place, value):
    check = path_survey(1, ("ib_write_bw", "ib_write_lat"))
    assert check(ANSWER) is RIGHT
    wrong = json.loads(json.dumps(ANSWER))
    inner = wrong
    for word in place[:-1]:
        inner = inner[word]
    inner[place[-1]] = value
    assert check(wrong) is not RIGHT


@pytest.fixture
def here(monkeypatch, tmp_path):
    """Return two nodes that are this machine, with a stand-in for perftest."""
    perftest_standin.install(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    probe = Probe({n: Target(n, "", ("/bin/sh", "-c"), sys.executable, 60) for n in ("n0", "n1")})
    yield probe
    probe.close()


def two_nodes(device: str):
    """Return two nodes of one rail after a preflight that found this RDMA device, or none."""
    rail = SimpleNamespace(address=None, index=0)
    seen = {"rails": [{"rdma": device}], "addresses": {"lo": ["127.0.0.1"]}}
    return SimpleNamespace(
        nodes=[SimpleNamespace(name=name, rails=(rail,)) for name in ("n0", "n1")],
        facts={"n0": seen, "n1": seen},
        rendezvous=SimpleNamespace(devices={"n0": "lo", "n1": "lo"}),
    )


def test_a_survey_asks_perftest_itself_what_it_can(here):
    for own in survey_nodes(here, two_nodes("")).values():
        assert own.abilities["ib_write_bw"].version == "6.06"
        assert "--tclass" in own.abilities["ib_write_bw"].options
        assert own.ports == {}
        assert 0 in own.numa_nodes


def test_nodes_without_an_rdma_device_are_not_verified_and_not_green(here):
    report = StageReport("host", "each node has one GPU", is_skipped=True)
    add_host_paths(report, here, two_nodes(""))
    assert report.state == "skipped"
    assert report.said.startswith("each node has one GPU; RDMA loopbacks of 2 nodes not verified: ")
    assert report.findings == []


@pytest.mark.parametrize(
    ("rate", "least", "findings"), [("100 Gb/sec (4X EDR)", "10 GB/s", 0), (NDR, "40 GB/s", 2)]
)
def test_the_stage_measures_on_all_nodes_and_names_half_a_slot(
    here, monkeypatch, tmp_path, rate, least, findings
):
    """The stand-in reaches 97.28 Gb/s: enough for 100, and not for 400 in a slot of x8."""
    tree = verbs_tree.use(monkeypatch, tmp_path / "sys")
    verbs_tree.write(tree.port / "link_layer", "InfiniBand")
    verbs_tree.write(tree.port / "rate", rate)
    for address in verbs_tree.PATH:
        verbs_tree.write(tree.root / "bus/pci/devices" / address / "numa_node", "0")
    kept: dict[str, str] = {}
    report = StageReport("host", "2 nodes alone: 2 passed")
    add_host_paths(report, here, two_nodes("mlx5_0"), kept.__setitem__)
    assert "2 RDMA loopbacks at 12.2 GB/s or more" in report.said
    assert f"must reach 80 % of it, {least}" in report.said
    assert [each.node for each in report.findings] == ["n0", "n1"][:findings]
    assert all("runs at 32 GT/s x8" in each.what for each in report.findings)
    rows = [line.split("\t") for line in kept["loopback.tsv"].splitlines()[1:]]
    assert [(row[:3], row[3], row[5]) for row in rows] == [
        ([name, "0", "numa0"], "12.160", "") for name in ("n0", "n1")
    ]


def old_driver(node):
    remedy = f"On {node}: install a driver"
    return Finding("rank.failed", "it is old", remedy, node, values={"cause": "driver-old"})


@pytest.mark.parametrize(("nodes", "findings"), [(3, 1), (64, 1), (2, 2)])
def test_cause_that_most_nodes_have_is_one_finding(nodes, findings):
    names = [f"n{index}" for index in range(nodes)]
    found = host.folded([old_driver(name) for name in names], nodes)
    assert len(found) == findings
    assert {name for each in found for name in each.nodes} == set(names)
    if findings == 1:
        assert (found[0].level, found[0].node) == ("fleet", "")
        assert found[0].remedy == "install a driver"
