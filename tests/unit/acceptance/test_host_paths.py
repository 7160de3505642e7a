"""Loopbacks inside of nodes: what each must reach, what runs at once, and what a miss shows."""

import json
import os
from dataclasses import replace
from types import SimpleNamespace

import pytest
from tests.unit.helpers import perftest_standin, verbs_tree
from tests.unit.helpers.discovered import FULL, HALF, NDR, device, survey
from tests.unit.helpers.local_node import local_probe

from rdmaprov.acceptance.ask.shapes import path_step, path_survey
from rdmaprov.acceptance.paths.ceilings import HostCell, host_cells, host_rounds
from rdmaprov.acceptance.paths.survey import NodeSurvey, survey_nodes
from rdmaprov.acceptance.stage_report import StageReport
from rdmaprov.acceptance.stages import host
from rdmaprov.acceptance.stages.host import add_host_paths, judge, measure_cells
from rdmaprov.boundary import RIGHT
from rdmaprov.facts.pci_links import Link
from rdmaprov.finding.finding import Finding
from rdmaprov.perftest import errors
from rdmaprov.perftest.loopback import loopback_ceiling, slot_gb_s
from rdmaprov.perftest.model import PathResult


def by_memory(name: str, own: NodeSurvey, rail: int = 0) -> dict[str, HostCell]:
    return {c.test.sender.memory: c for c in host_cells(name, own) if c.test.sender.rail == rail}


def judged(surveys: dict[str, NodeSurvey], slow, error: str = ""):
    """Return what is found if the loopbacks in `slow` reach 20 GB/s, and all others 49."""
    cells = {name: host_cells(name, own) for name, own in surveys.items()}
    found = {}
    for own in cells.values():
        for cell in own:
            end = cell.test.sender
            is_bad = (end.node, end.rail, end.memory) in slow
            result = PathResult(cell.test, 20.0 if is_bad else 49.0)
            if is_bad and error:
                result = PathResult(cell.test, error=error, said="perftest said so")
            found[cell.test] = result
    return judge(cells, found, surveys)


def test_a_port_limits_what_a_slot_of_its_generation_carries():
    ceiling = by_memory("a", survey())["numa0"].ceiling
    assert ceiling is not None
    assert ceiling.gb_s == 50
    assert ceiling.least_gb_s == 40
    assert "a port of 400 Gb/s: 50 GB/s; a loopback must reach 80 % of it" in ceiling.sentence


def test_a_slot_that_can_do_less_than_the_port_limits_it():
    slow = ["16.0 GT/s PCIe", "16", "16.0 GT/s PCIe", "16"]
    ceiling = by_memory("a", survey(nic_link=slow))["numa0"].ceiling
    assert ceiling is not None
    assert ceiling.gb_s == pytest.approx(slot_gb_s(Link(16.0, 16)))
    assert 25 < ceiling.gb_s < 30
    assert "the slot of 0000:01:10.0 (16 GT/s x16)" in ceiling.sentence


def test_both_directions_carry_headers_and_one_the_requests_of_reads():
    # 31.5 GB/s of a PCIe 4.0 x16 slot: 256 of each 280 + 12 bytes are payload.
    assert slot_gb_s(Link(16.0, 16)) == pytest.approx(16 * 16 * 128 / 130 / 8 * 256 / 292)
    assert loopback_ceiling(100).gb_s == 12.5


def test_each_rail_has_a_cell_with_each_memory_and_knows_what_is_near():
    cells = by_memory("a", survey())
    assert {name: cell.place.is_near for name, cell in cells.items()} == {
        "numa0": True,
        "numa1": False,
        "gpu0": True,
        "gpu1": False,
    }
    assert cells["gpu1"].place.reason == "far GPU: NUMA node 1"
    assert "NUMA node 0" in cells["numa1"].place.reason


def test_a_gpu_on_the_same_socket_without_a_switch_is_behind_the_cpu():
    own = survey()
    said = {**own.said, "gpus": [{"index": 0, "path": device(9, 1), "numa": 0}]}
    place = by_memory("a", replace(own, said=said))["gpu0"].place
    assert not place.is_near
    assert place.reason.startswith("behind the CPU")


def test_a_round_shares_no_rail_and_no_memory_and_has_one_far_cell():
    cells = host_cells("a", survey())
    rounds = host_rounds(cells)
    assert sorted(map(id, cells)) == sorted(id(cell) for own in rounds for cell in own)
    for own in rounds:
        ends = [cell.test.sender for cell in own]
        assert len({end.rail for end in ends}) == len({end.memory for end in ends}) == len(ends)
        assert sum(not cell.place.is_near for cell in own) <= 1


def test_good_loopbacks_give_no_finding():
    assert judged({"a": survey(), "b": survey()}, ()) == ([], [])


@pytest.mark.parametrize(
    ("changes", "memory", "cause"),
    [
        ({"nic_link": HALF}, "numa0", "0000:01:10.0 runs at 32 GT/s x8, its ends can do"),
        ({"gpu_link": HALF}, "gpu0", "0000:01:11.0 runs at 32 GT/s x8, its ends can do"),
    ],
)
def test_half_a_slot_is_named_and_no_network_is_suspected(changes, memory, cause):
    surveys = {"a": survey(**changes), "b": survey(), "c": survey()}
    findings, notes = judged(surveys, {("a", 0, memory)})
    (found,) = findings
    assert (found.node, found.rail, found.proven, found.nodes) == ("a", 0, True, ("a",))
    assert cause in found.what
    assert "20 GB/s" in found.what
    assert "not in the network" in found.remedy
    assert notes == []


def test_a_redirect_of_acs_is_named():
    # A capability of ACS (0x0d) at 0x100 whose control has request redirect on (0x04).
    space = bytearray(4096)
    space[0x100:0x108] = (0x0D).to_bytes(4, "little") + b"\x00\x00\x04\x00"
    own = survey(configs={"0000:01:01.0": space.hex()})
    findings, _ = judged({"a": own, "b": survey()}, {("a", 0, "gpu0")})
    assert [each.proven for each in findings] == [True]
    assert "ACS of 0000:01:01.0 redirects through the CPU (ReqRedir)" in findings[0].what


def test_a_miss_that_the_path_does_not_explain_is_unknown():
    findings, _ = judged({name: survey() for name in "abc"}, {("a", 0, "numa0")})
    assert [(each.node, each.proven) for each in findings] == [("a", False)]


IDLE = ["2.5 GT/s PCIe", "16", "32.0 GT/s PCIe", "16"]
SLOWED = ["16.0 GT/s PCIe", "16", "32.0 GT/s PCIe", "16"]


@pytest.mark.parametrize(
    ("changes", "memory", "proven"),
    [
        ({"gpu_link": IDLE}, "gpu0", False),
        ({"gpu_link": SLOWED}, "gpu0", False),
        ({"nic_link": IDLE}, "numa0", False),
        ({"nic_link": SLOWED}, "numa0", True),
    ],
)
def test_the_speed_of_a_link_that_idles_is_no_cause(changes, memory, proven):
    findings, _ = judged({"a": survey(**changes), "b": survey(), "c": survey()}, {("a", 0, memory)})
    assert [each.proven for each in findings] == [proven]


def test_a_miss_of_most_nodes_is_a_property_of_the_nic():
    surveys = {name: survey() for name in "abc"}
    findings, notes = judged(surveys, {(name, 0, "numa0") for name in "abc"})
    assert findings == []
    assert len(notes) == 3
    assert all("most nodes are alike" in note for note in notes)


def test_far_memory_has_no_floor():
    findings, notes = judged({"a": survey(), "b": survey()}, {("a", 0, "numa1")})
    assert findings == []
    assert "no floor applies" in notes[0]


def test_soft_roce_has_no_floor_and_no_finding():
    own = survey(software=True)
    assert all(cell.ceiling is None for cell in by_memory("a", own).values())
    assert judged({"a": own, "b": own}, {("a", 0, "numa0")}) == ([], [])


def test_links_that_are_not_shown_give_no_floor():
    unknown = ["Unknown", "0", "Unknown", "0"]
    assert by_memory("a", survey(nic_link=unknown))["numa0"].ceiling is None


def test_a_failure_is_unknown_and_what_was_not_tested_is_not_verified():
    surveys = {name: survey() for name in "abc"}
    findings, _ = judged(surveys, {("a", 0, "numa0")}, errors.COMPLETION)
    assert ["fails: a transfer ended with an error (perftest said so)" in f.what for f in findings]
    assert [each.proven for each in findings] == [False]
    findings, notes = judged(surveys, {("a", 0, "gpu0")}, errors.NO_GPU_MEMORY)
    assert findings == []
    assert notes == [
        "1 loopback through GPU memory not verified: GPU memory could not be tested "
        "(perftest said so)"
    ]


class DeadRail:
    """A measurer for which each loopback of rail 0 lasts until its time limit."""

    def __init__(self):
        self.asked = []

    def measure(self, tests):
        self.asked += tests
        return {
            test: PathResult(test, error="" if test.sender.rail else errors.TIMEOUT)
            for test in tests
        }


def test_a_rail_that_failed_twice_is_left_alone_and_the_other_goes_through():
    cells, measurer = {"a": host_cells("a", survey())}, DeadRail()
    found = measure_cells(measurer, cells)
    assert found.keys() == {cell.test for cell in cells["a"]}
    words = [result.error for test, result in found.items() if test.sender.rail == 0]
    assert sorted(words) == [errors.NOT_RUN, errors.NOT_RUN, errors.TIMEOUT, errors.TIMEOUT]
    assert [test.sender.rail for test in measurer.asked].count(1) == 4


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


NONE = {"there": False, "help": []}
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
    perftest_standin.install(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    with local_probe("n0", "n1") as probe:
        yield probe


def two_nodes(device: str):
    rail = SimpleNamespace(address=None, index=0)
    seen = {"rails": [{"rdma": device}], "addresses": {"lo": ["127.0.0.1"]}}
    return SimpleNamespace(
        nodes=[SimpleNamespace(name=name, rails=(rail,)) for name in ("n0", "n1")],
        facts={"n0": seen, "n1": seen},
        rendezvous=SimpleNamespace(devices={"n0": "lo", "n1": "lo"}),
    )


def test_a_survey_asks_perftest_itself_what_it_can(here):
    for own in survey_nodes(here, two_nodes("")).values():
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
