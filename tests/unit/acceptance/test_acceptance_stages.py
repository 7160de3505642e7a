"""Stages of pairs, groups and single nodes: what each runs, says, and takes out."""

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import pytest
from tests.unit.helpers.live_ranks import GPUS, RATE_GB_S, FakeRunner, made_site, slow

from rdmaprov.acceptance.gate import Gate, StageRun
from rdmaprov.acceptance.live.alone import RanksAlone
from rdmaprov.acceptance.live.ranks import LiveRanks
from rdmaprov.acceptance.options import Options, parse_duration
from rdmaprov.acceptance.preflight import readings
from rdmaprov.acceptance.ranks import jobs
from rdmaprov.acceptance.result import GateResult
from rdmaprov.acceptance.stage_report import IN_FILES, STAGES, StageReport, leave_out, parse_stages
from rdmaprov.acceptance.stages import groups as stages_groups
from rdmaprov.acceptance.stages import host as stages_host
from rdmaprov.acceptance.stages import pairs as stages_path_pairs
from rdmaprov.acceptance.stages import resume
from rdmaprov.errors import UsageError
from rdmaprov.finding.finding import Finding
from rdmaprov.isolation import model

DOCS = Path(__file__).parents[3] / "docs"


@pytest.fixture
def site(tmp_path):
    return made_site(tmp_path)


def pairs(site, share, every=False):
    runner = FakeRunner(share)
    with LiveRanks(site, runner, "pairs").opened() as live:
        return stages_groups.run_pairs(live, site, every), runner


@pytest.mark.parametrize(
    ("backend", "chosen", "skips"),
    [("gloo", "", True), ("gloo", "pairs", False), ("nccl", "", False)],
)
def test_the_only_pair_is_left_to_the_fleet_over_gloo_alone(
    tmp_path, monkeypatch, backend, chosen, skips
):
    """NCCL may take a tree on two nodes, which hides what the ring of a pair shows."""
    monkeypatch.setattr(
        stages_path_pairs, "measure_site_paths", lambda *_: None
    )  # no node has perftest
    monkeypatch.setattr(readings, "read_counters", lambda *_: {})
    site = made_site(tmp_path, 2, backend)
    runner, unused = FakeRunner(slow("none")), cast("Any", None)
    made = Gate(site.nodes, unused, Options(stages=parse_stages(chosen)), unused, lambda _: None)
    with ExitStack() as stack:
        run = StageRun(made, GateResult(()), runner, stack, list(site.nodes), site)
        assert run._run_one("pairs").is_skipped == skips
    assert bool(runner.jobs) != skips


# --- pairs -------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.46, 0.56, 0.7, 0.86])
def test_a_node_that_the_floor_refuses_is_seen_by_pairs(site, share):
    report, runner = pairs(site, slow("n6", share))
    [found] = report.findings
    assert (found.node, found.level, found.proven) == ("n6", "node", True)
    assert len(runner.jobs) == 1, "rounds need no new ranks"
    assert "n6" in report.text


def test_the_rail_next_to_the_slow_gpus_is_named(site):
    report, _ = pairs(site, slow("n6", gpus=range(4, 8)))
    [found] = report.findings
    assert (found.node, found.rail, found.level) == ("n6", 1, "rail")


@pytest.mark.parametrize(
    ("bad", "found"),
    [
        ({"n3": 1, "n4": 1}, [("leaf", ("n3", "n4"), 1, False)]),
        ({"n3": 1, "n4": 0}, [("rail", ("n3",), 1, True), ("rail", ("n4",), 0, True)]),
        ({"n4": 1, "n5": 1}, [("rail", ("n4",), 1, True), ("rail", ("n5",), 1, True)]),
    ],
)
def test_one_rail_of_all_nodes_of_a_leaf_is_the_leafs(tmp_path, bad, found):
    def share(node, _plane, gpu):
        return 0.5 if bad.get(node) == gpu // 4 else 1.0

    report, _ = pairs(made_site(tmp_path, 8, per_leaf=2), share)
    said = [(each.level, each.nodes, each.rail, each.proven) for each in report.findings]
    assert sorted(said) == found


def test_a_node_under_another_leaf_is_named_and_its_pairs_accuse_nobody(tmp_path):
    site = made_site(tmp_path, 16, per_leaf=4)
    leaf = {node.name: str(node.get("fabric_leaf")) for node in site.nodes} | {"n2": "leaf3"}
    runner = FakeRunner(slow("n2"), us=lambda one, other: 9.0 if leaf[one] == leaf[other] else 10.5)
    with LiveRanks(site, runner, "pairs").opened() as live:
        [found] = stages_groups.run_pairs(live, site, False).findings
    assert (found.nodes, found.level, found.proven) == (("n2",), "node", False)
    assert "not under leaf0" in found.what
    assert "lldpctl" in found.remedy


def test_a_round_reads_only_its_own_events(site):
    """In a fleet, ranks have said hundreds of thousands of things before."""
    with LiveRanks(site, FakeRunner(slow("n1")), "pairs").opened() as live:
        first = live.measure([("n1", "n2")])
        live.runs[0].events[:] = [{}] * len(live.runs[0].events)  # an event has a kind
        assert live.measure([("n1", "n2")]) == first


@pytest.mark.parametrize(("dies", "wanted"), [(True, {}), (False, {("n9", "n10"): 0.0})])
def test_what_ends_with_a_node_that_died_is_not_taken_for_hung(site, dies, wanted):
    """Its session ends for all: a pair that had not measured yet has no result."""
    said = {"n4": None if dies else 1.0, "n9": 0.0, "n10": 0.0}
    runner = FakeRunner(lambda node, *_: said.get(node, 1.0))
    with LiveRanks(site, runner, "pairs").opened() as live:
        reached = live.measure([("n1", "n2"), ("n3", "n4"), ("n9", "n10")])
    assert {pair: rate for pair, rate in reached.items() if rate < RATE_GB_S / 2} == wanted
    assert live.lost == ({"n4"} if dies else set())


def test_pairs_are_rings_and_on_gloo_a_plane_each(site, tmp_path):
    _, runner = pairs(site, slow("none"))
    [job] = runner.jobs
    assert {job.environment[name]["NCCL_ALGO"] for name in job.nodes} == {"Ring"}
    report, runner = pairs(made_site(tmp_path / "gloo", 8, "gloo"), slow("n3", 0.2, "rail 1"))
    [found] = report.findings
    assert (found.node, found.rail, found.level) == ("n3", 1, "rail")
    assert {task.plane for task in runner.tasks} == {"rail 0", "rail 1"}


def test_a_node_that_dies_is_left_and_the_others_go_on(site):
    report, runner = pairs(site, lambda node, *_: None if node == "n4" else 1.0)
    [found] = report.findings
    assert (found.node, found.proven) == ("n4", True)
    assert "stopped answering" in found.what
    assert [len(job.nodes) for job in runner.jobs] == [16, 15]


def test_who_hangs_with_two_is_named_at_once_and_takes_part_no_more(site):
    runner = FakeRunner(slow("n6", 0))
    said: list[str] = []
    with LiveRanks(site, runner, "pairs", say=said.append).opened() as live:
        report = stages_groups.run_pairs(live, site, False)
    [found] = report.findings
    assert (found.node, found.level, found.proven) == ("n6", "node", True)
    assert "it hung with n5, n2, which pass without it" in found.what
    assert [len(job.nodes) for job in runner.jobs] == [16, 4, 15]
    assert said == [f"pairs: {found.text}"]
    hung = [row["nodes"] for row in live.tests if row.get("gb_s") == 0]
    assert hung == [["n5", "n6"], ["n6", "n2"]], "a dossier shows what the verdict rests on"
    assert runner.jobs[1].limits.step < runner.jobs[0].limits.hang


@pytest.mark.parametrize(("said", "least"), [("", 49), ("22", 152), ("bad", 49), ("999", 180)])
def test_nccl_has_its_say_with_the_nodes_own_timeout(site, said, least):
    site.facts["n7"]["ib_timeout"] = said
    assert jobs.session_job(site, 0).limits.hang == pytest.approx(least, abs=0.5)


@pytest.mark.parametrize("bad", [("n5", "n6"), ("n1", "n2", "n3", "n4")])
def test_who_hangs_beside_another_that_does_is_not_settled_at_once(site, bad):
    runner = FakeRunner(lambda node, *_: 0 if node in bad else 1)
    with LiveRanks(site, runner, "pairs").opened() as live:
        reached = live.measure([(f"n{n}", f"n{n + 1}") for n in range(1, 16, 2)])
    assert not live.lost
    assert {name for pair, rate in reached.items() for name in pair if not rate} == set(bad)


def test_sessions_that_hang_again_and_again_end(site):
    report, runner = pairs(site, lambda *_: 0)
    assert len(runner.jobs) <= 8
    assert not any(found.proven for found in report.findings)


def test_each_round_has_every_node_once(site):
    _, runner = pairs(site, slow("n6"))
    for task in runner.tasks:
        ranks = [rank for group in task.groups for rank in group]
        assert len(ranks) == len(set(ranks))
    assert sum(len(group) for group in runner.tasks[0].groups) == 16 * GPUS


def counted(**more):
    rails = [{"counters": {f"ethtool.tx_prio{n}_bytes": more.get(f"p{n}", 0) for n in (0, 3)}}] * 2
    return {"time": 0, "rails": rails, "others": {}}


@pytest.mark.parametrize(("bad", "wanted"), [("none", ["n3", "n3"]), ("n6", ["n6"])])
def test_counters_of_rings_are_judged_where_pairs_find_nothing(site, monkeypatch, bad, wanted):
    """What perftest sent before has a priority of its own."""
    before = {node.name: counted(p0=9 << 30) for node in site.nodes}
    after = {node.name: counted(p0=9 << 30, p3=9 << 30) for node in site.nodes}
    after["n3"] = counted(p0=18 << 30)
    monkeypatch.setattr(readings, "read_counters", lambda _connection, _nodes: after)
    with LiveRanks(site, FakeRunner(slow(bad)), "pairs").opened() as live:
        report = stages_path_pairs._run_rings(
            cast("Any", None), site, Options(), lambda _site: live, before
        )
    assert [found.node for found in report.findings] == wanted
    assert {found.kind for found in report.findings} == {
        "traffic.priority" if bad == "none" else "part.slow"
    }


# --- groups ------------------------------------------------------------------------------------


def test_groups_are_leaves_and_then_across(tmp_path):
    kinds = stages_groups.equal_groups(made_site(tmp_path, 16, per_leaf=4))
    assert kinds["neighbours"][0] == ("n1", "n2", "n3", "n4")
    assert kinds["across leaves"][0] == ("n1", "n5", "n9", "n13")
    assert {len(group) for groups in kinds.values() for group in groups} == {4}


def test_four_nodes_make_groups_of_two(tmp_path):
    assert stages_groups.equal_groups(made_site(tmp_path, 4, per_leaf=2)) == {
        "neighbours": [("n1", "n2"), ("n3", "n4")],
        "across leaves": [("n1", "n3"), ("n2", "n4")],
    }


def test_a_leaf_of_one_node_has_no_group_of_neighbours(tmp_path):
    kinds = stages_groups.equal_groups(made_site(tmp_path, 7, per_leaf=2))
    assert kinds["neighbours"] == [("n1", "n2"), ("n3", "n4"), ("n5", "n6")]
    assert len(kinds["across leaves"]) == 3


@pytest.mark.parametrize("count", [2, 3])
def test_a_few_nodes_make_no_groups(tmp_path, count):
    site = made_site(tmp_path, count)
    with LiveRanks(site, FakeRunner(slow("none")), "groups").opened() as live:
        report = stages_groups.run_groups(live, site)
    assert (report.state, report.findings) == ("skipped", [])
    assert "fewer than 4 nodes" in report.text


def test_a_group_that_is_slow_only_together_is_unknown(tmp_path):
    site = made_site(tmp_path, 16, per_leaf=4)
    bad = ("n5", "n6", "n7", "n8")
    seen = []

    def measure(groups):
        seen.append(groups)
        return {group: 200.0 if group == bad else 400.0 for group in groups}

    groups = stages_groups.equal_groups(site)["neighbours"]
    [part] = stages_groups.compare_groups(measure, groups, "neighbours", site)
    assert (part.kind, part.name, part.nodes, len(seen)) == ("leaf", "leaf1", bad, 3)
    assert not model.findings([part])[0].proven


# --- host --------------------------------------------------------------------------------------


def test_host_is_a_job_for_each_node_and_its_limit_is_that_of_good_ones(site):
    runner = FakeRunner(slow("n6", 0.5))
    report = stages_host.run_host(site, RanksAlone(runner))
    assert [job.nodes for job in runner.jobs] == [(node.name,) for node in site.nodes]
    assert {job.address for job in runner.jobs} == {"127.0.0.1"}
    [found] = report.findings
    assert (found.node, found.level) == ("n6", "node")
    assert report.intra_node_gb_s == pytest.approx(400)
    assert report.text.startswith("host: 16 nodes alone: 15 passed, at 400 GB/s or more; n6: ")


def test_host_with_gloo_has_two_ranks_on_the_loopback(tmp_path):
    site = made_site(tmp_path, 3, "gloo")
    runner = FakeRunner(slow("n2", 0.1))
    report = stages_host.run_host(site, RanksAlone(runner))
    assert (report.state, report.intra_node_gb_s) == ("passed", 0.0)
    job = runner.jobs[0]
    assert (job.per_node, job.control, job.planes[0].addresses) == (
        2,
        {"n1": "lo"},
        {"n1": "127.0.0.1"},
    )


def test_host_of_one_gpu_is_skipped(site):
    for facts in site.facts.values():
        facts["gpus"]["gpus"] = facts["gpus"]["gpus"][:1]
    report = stages_host.run_host(site, RanksAlone(FakeRunner(slow("none"))))
    assert (report.state, report.text) == ("skipped", "host: skipped: each node has one GPU")


def test_a_node_that_dies_alone_is_named(site):
    report = stages_host.run_host(site, RanksAlone(FakeRunner(lambda n, *_: 0 if n == "n2" else 1)))
    assert {found.node for found in report.findings} == {"n2"}


def test_each_stage_can_be_run():
    assert [name for name in STAGES if not hasattr(StageRun, f"_run_{name}")] == []


def test_page_lists_each_stage_in_its_order():
    head = "| stage | what it does | skipped |\n|---|---|---|\n"
    table = (DOCS / "acceptance.md").read_text().partition(head)[2].partition("\n\n")[0]
    assert [line.split(" | ")[0].strip("| ") for line in table.splitlines()] == list(STAGES)


@pytest.mark.parametrize("name", ["results", "certificate"])
def test_schema_takes_each_stage(name):
    """Lists that are written by hand forgot one: a certificate that named it was refused."""
    found = []

    def keep_lists(value):
        if "preflight" in value.get("enum", ()):
            found.append(value["enum"])
        return value

    json.loads((DOCS / f"{name}.schema.json").read_text(), object_hook=keep_lists)
    assert found
    assert all(each == list(IN_FILES) for each in found)


def keep(runs, name, same, reports, results=None):
    (runs / name).mkdir(parents=True)
    (runs / name / resume.FILE).write_text(resume.as_text(same, reports, {"n1": {"nccl": "2"}}))
    if results is not None:
        (runs / name / "results.json").write_text(json.dumps(results))
    return runs / name


def test_an_interrupted_run_gives_its_whole_stages_again(tmp_path):
    site = tmp_path / "site"
    same = resume.identity(site, ("n1", "n2"), Options(limit_s=5))
    report = StageReport(
        "host", "said", 3.2, False, [Finding("rail.slow", "w", "r", "n1", 2)], ["note"]
    )
    report.left_out, report.intra_node_gb_s = {"n1": "why"}, 455.5
    report.detail = {"names": ["n1", "n2"], "rows": [[0, 1, 0, 0, 48.5, 1.0, 2.1, ""]]}
    run = keep(tmp_path / "runs", "20260101-000000-accept", same, [report])
    assert resume.find_run(same, tmp_path / "runs") == run
    again = resume.read_stages(run, resume.identity(site, ("n1", "n2"), Options()))
    assert again == resume.Resumed(run.name, {"host": report}, {"n1": {"nccl": "2"}})


def test_a_run_of_others_or_one_that_ended_is_not_resumed(tmp_path):
    runs, site = tmp_path / "runs", tmp_path / "site"
    same = resume.identity(site, ("n1", "n2"), Options())
    other = resume.identity(site, ("n1", "n3"), Options())
    keep(runs, "20260101-000000-accept", same, [], {"interrupted": False})
    run = keep(runs, "20260102-000000-accept", other, [])
    assert resume.find_run(same, runs) is None
    with pytest.raises(UsageError, match="other nodes or options"):
        resume.read_stages(run, same)
    with pytest.raises(UsageError, match="no stages to resume"):
        resume.read_stages(runs / "none", same)


@pytest.mark.parametrize("stage", [{}, {"name": "x", "state": "passed"}, [], "x"])
def test_a_file_that_somebody_changed_is_refused(tmp_path, stage):
    same = resume.identity(tmp_path, ("n1", "n2"), Options())
    run = keep(tmp_path / "runs", "20260101-000000-accept", same, [])
    (run / resume.FILE).write_text(json.dumps({**same, "stages": [stage]}))
    with pytest.raises(UsageError, match=resume.FILE):
        resume.read_stages(run, same)


def test_a_finding_takes_its_node_out_and_of_a_path_one_end():
    names = tuple(f"n{n}" for n in range(8))
    found = [
        Finding("rail.slow", "slow", "x", "n3"),
        Finding("rdma.failed", "path", "x", nodes=("n3", "n4")),
        Finding("rdma.failed", "path", "x", nodes=("n5", "n6")),
        Finding("packets.lost", "leaf", "x", level="leaf", nodes=("n0", "n1")),
        Finding("run.failed", "all", "x", level="fleet", nodes=names),
    ]
    assert set(leave_out(found, names)) == {"n3", "n6", "n0", "n1"}
    assert (
        leave_out([Finding("packets.lost", "half", "x", level="leaf", nodes=names[:4])], names)
        == {}
    )


def test_a_report_is_one_line_and_a_state():
    report = StageReport("host", "it did")
    assert (report.text, report.state) == ("host: it did", "passed")
    report.findings.append(Finding("rail.slow", "x", "y", "n1", proven=False))
    assert report.state == "unknown"
    report.findings.append(Finding("rail.slow", "x", "y", "n1"))
    assert (report.state, report.as_data()["findings"]) == ("failed", 2)


def test_stages_are_chosen_in_their_order():
    assert parse_stages("") == ("state", "preflight", "gpu", "host", "pairs", "groups", "fleet")
    assert parse_stages("pairs, host") == ("state", "preflight", "host", "pairs")
    assert Options(soak_s=60).wanted[-1] == "soak"


@pytest.mark.parametrize(("text", "seconds"), [("", 0), ("90", 90), ("30m", 1800), ("2h", 7200)])
def test_a_soak_has_a_time(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("parse", "option", "text"),
    [
        *((parse_stages, "--stages", text) for text in ("soak", "x", "host,,pairs")),
        *((parse_duration, "--soak", text) for text in ("0", "-1", "1d", "x", "169h", "1.5h")),
    ],
)
def test_a_stage_that_is_none_and_a_soak_that_is_no_time(parse, option, text):
    with pytest.raises(UsageError, match=option):
        parse(text)
