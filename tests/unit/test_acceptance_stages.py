"""Stages: what each runs, what it says, whom it takes out of the next ones, what is kept."""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import Any, cast

import pytest
from tests.unit.live_ranks import RATE_GB_S, FakeRunner
from tests.unit.sites import GOOD, write

from rdmaprov.acceptance import (
    gate,
    isolate,
    jobs,
    resume,
    stages,
    stages_groups,
    stages_host,
    stages_soak,
)
from rdmaprov.acceptance.finding import Finding
from rdmaprov.acceptance.gate import Gate, StageRun
from rdmaprov.acceptance.jobs import GateSite
from rdmaprov.acceptance.live import LiveRanks
from rdmaprov.acceptance.options import Options, parse_duration
from rdmaprov.acceptance.reach import Rendezvous
from rdmaprov.acceptance.result import GateResult
from rdmaprov.acceptance.stages import StageReport, leave_out, parse_stages
from rdmaprov.errors import UsageError
from rdmaprov.inventory import load_site

GPUS = 8


def made_site(path, count=16, backend="nccl", per_leaf=0, extra=""):
    leaf = [f", fabric_leaf: leaf{n // per_leaf}" if per_leaf else "" for n in range(count)]
    hosts = "".join(f"    n{n + 1}: {{unit: {n + 1}{leaf[n]}}}\n" for n in range(count))
    files = {**GOOD, "hosts.yml": f"---\nnodes:\n  hosts:\n{hosts}"}
    files["group_vars/nodes.yml"] = files.get("group_vars/nodes.yml", "---\n") + extra
    nodes = load_site(write(path / "site", files)).nodes
    assert len(nodes) == count
    facts = {
        node.name: {
            "port": 40000,
            "addresses": {"eth0": [f"192.0.2.{number}"]},
            "gpus": {"gpus": [{"free_mib": "80000", "total_mib": "81920"}] * GPUS},
            "rails": [{"netdev": f"ens{r}", "rdma": f"mlx5_{r}"} for r in (1, 2)],
        }
        for number, node in enumerate(nodes, start=1)
    }
    return GateSite(nodes, facts, backend, Rendezvous("192.0.2.1", dict.fromkeys(facts, "eth0")))


@pytest.fixture
def site(tmp_path):
    return made_site(tmp_path)


def pairs(site, share, every=False):
    runner = FakeRunner(share)
    with LiveRanks(site, runner, "pairs").opened() as live:
        return stages_groups.run_pairs(live, site, every), runner


def slow(bad, share=0.5, plane=None, gpus=range(GPUS)):
    def of(node, where, gpu):
        return share if node == bad and plane in (None, where) and gpu in gpus else 1.0

    return of


@pytest.mark.parametrize(
    ("backend", "chosen", "skips"),
    [("gloo", "", True), ("gloo", "pairs", False), ("nccl", "", False)],
)
def test_the_only_pair_is_left_to_the_fleet_over_gloo_alone(
    tmp_path, monkeypatch, backend, chosen, skips
):
    """NCCL may take a tree on two nodes, which hides what the ring of a pair shows."""
    monkeypatch.setattr(gate, "measure_site_paths", lambda *_: None)  # no node has perftest
    site = made_site(tmp_path, 2, backend)
    runner, unused = FakeRunner(slow("none")), cast("Any", None)
    options = Options(stages=parse_stages(chosen))
    made = Gate(site.nodes, unused, options, unused, unused, lambda _: None)
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
    said = {"n4": None if dies else 1.0, "n9": 0.0}
    runner = FakeRunner(lambda node, *_: said.get(node, 1.0))
    with LiveRanks(site, runner, "pairs").opened() as live:
        reached = live.measure([("n1", "n2"), ("n3", "n4"), ("n9", "n10")])
    assert {pair: rate for pair, rate in reached.items() if rate < RATE_GB_S / 2} == wanted
    assert live.lost == ({"n4"} if dies else set())


def test_pairs_are_rings_and_on_gloo_a_plane_each(site, tmp_path):
    _, runner = pairs(site, slow("none"))
    [job] = runner.jobs
    assert {job.environment[name]["NCCL_ALGO"] for name in job.nodes} == {"Ring"}
    gloo = made_site(tmp_path / "gloo", 8, "gloo")
    report, runner = pairs(gloo, slow("n3", 0.2, "rail 1"))
    [found] = report.findings
    assert (found.node, found.rail, found.level) == ("n3", 1, "node")
    assert {task.plane for task in runner.tasks} == {"rail 0", "rail 1"}


def test_a_node_that_dies_is_left_and_the_others_go_on(site):
    report, runner = pairs(site, lambda node, *_: None if node == "n4" else 1.0)
    [found] = report.findings
    assert (found.node, found.proven) == ("n4", True)
    assert "stopped answering" in found.what
    assert [len(job.nodes) for job in runner.jobs] == [16, 15]


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


# --- groups ------------------------------------------------------------------------------------


def test_groups_are_leaves_and_then_across(tmp_path):
    kinds = stages_groups.equal_groups(made_site(tmp_path, 16, per_leaf=4))
    assert kinds["neighbours"][0] == ("n1", "n2", "n3", "n4")
    assert kinds["across leaves"][0] == ("n1", "n5", "n9", "n13")
    assert {len(group) for groups in kinds.values() for group in groups} == {4}


def test_four_nodes_make_groups_of_two(tmp_path):
    kinds = stages_groups.equal_groups(made_site(tmp_path, 4, per_leaf=2))
    assert kinds == {
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
    assert not isolate.findings([part])[0].proven


# --- host --------------------------------------------------------------------------------------


def test_host_is_a_job_for_each_node_and_its_limit_is_that_of_good_ones(site):
    runner = FakeRunner(slow("n6", 0.5))
    report = stages_host.run_host(site, runner, None)
    assert [job.nodes for job in runner.jobs] == [(node.name,) for node in site.nodes]
    assert {job.address for job in runner.jobs} == {"127.0.0.1"}
    [found] = report.findings
    assert (found.node, found.level) == ("n6", "node")
    assert report.intra_node_gb_s == pytest.approx(400)
    assert report.text.startswith("host: 16 nodes alone: 15 passed, at 400 GB/s or more; n6: ")


def test_host_with_gloo_has_two_ranks_on_the_loopback(tmp_path):
    site = made_site(tmp_path, 3, "gloo")
    runner = FakeRunner(slow("n2", 0.1))
    report = stages_host.run_host(site, runner, None)
    assert (report.state, report.intra_node_gb_s) == ("passed", 0.0)
    job = runner.jobs[0]
    assert (job.per_node, job.control, job.planes[0].addresses) == (
        2, {"n1": "lo"}, {"n1": "127.0.0.1"},
    )  # fmt: skip


def test_host_of_one_gpu_is_skipped(site):
    for facts in site.facts.values():
        facts["gpus"]["gpus"] = facts["gpus"]["gpus"][:1]
    report = stages_host.run_host(site, FakeRunner(slow("none")), None)
    assert (report.state, report.text) == ("skipped", "host: skipped: each node has one GPU")


def test_a_node_that_dies_alone_is_named(site):
    report = stages_host.run_host(site, FakeRunner(lambda n, *_: 0 if n == "n2" else 1), None)
    assert {found.node for found in report.findings} == {"n2"}


# --- jobs --------------------------------------------------------------------------------------


def test_nccl_takes_the_control_device_unless_the_node_says_otherwise(tmp_path):
    site = made_site(tmp_path, 4)
    site.facts["n2"]["socket_ifname"] = "bond0"
    made = jobs.fleet_job(site, (1 << 30,), False)
    assert made.environment["n1"]["NCCL_SOCKET_IFNAME"] == "=eth0"
    assert "NCCL_SOCKET_IFNAME" not in made.environment["n2"]


def test_nccl_takes_the_device_that_the_site_states(tmp_path):
    site = made_site(tmp_path, 4, extra="nccl_socket_ifname: =bond0\n")
    assert jobs.fleet_job(site, (1 << 30,), False).environment["n1"] == {}


def test_the_site_chooses_the_port(tmp_path):
    site = made_site(tmp_path, 4, extra="torch_runtime_acceptance_port: 29400\n")
    assert jobs.fleet_job(site, (8,), False).port == 29400
    assert jobs.session_job(site, 3).port == 29400
    free = made_site(tmp_path / "free", 4)
    assert jobs.session_job(free, 0).port != jobs.session_job(free, 1).port


def test_ranks_meet_at_the_first_node_that_is_left(site):
    job = jobs.session_job(site.without({"n1"}), 0)
    assert (job.nodes[0], job.address) == ("n2", "192.0.2.2")
    assert jobs.session_job(site, 0).address == "192.0.2.1"


def test_all_collectives_run_on_the_fleet_at_the_largest_sizes_only(site):
    tasks = jobs.fleet_job(site, tuple(1 << n for n in range(3, 30)), False).tasks
    others = {task.collective: task.sizes for task in tasks if task.stage == "fleet"}
    assert set(others) == {"all_reduce", "all_gather", "reduce_scatter", "all_to_all"}
    assert others["all_to_all"] == (1 << 27, 1 << 28, 1 << 29)


# --- who goes on -------------------------------------------------------------------------------


def test_a_finding_takes_its_node_out_and_of_a_path_one_end():
    names = tuple(f"n{n}" for n in range(8))
    found = [
        Finding("slow", "x", "n3"),
        Finding("path", "x", nodes=("n3", "n4")),
        Finding("path", "x", nodes=("n5", "n6")),
        Finding("leaf", "x", level="leaf", nodes=("n0", "n1")),
        Finding("all", "x", level="fleet", nodes=names),
    ]
    assert set(leave_out(found, names)) == {"n3", "n6", "n0", "n1"}
    assert leave_out([Finding("half", "x", level="leaf", nodes=names[:4])], names) == {}


def test_a_report_is_one_line_and_a_state():
    report = StageReport("host", "it did")
    assert (report.text, report.state) == ("host: it did", "passed")
    report.findings.append(Finding("x", "y", "n1", proven=False))
    assert report.state == "unknown"
    report.findings.append(Finding("x", "y", "n1"))
    assert (report.state, report.as_data()["findings"]) == ("failed", 2)


# --- options -----------------------------------------------------------------------------------


def test_stages_are_chosen_in_their_order():
    assert parse_stages("") == ("state", "preflight", "host", "pairs", "groups", "fleet")
    assert parse_stages("pairs, host") == ("state", "preflight", "host", "pairs")
    assert Options(soak_s=60).wanted[-1] == "soak"


@pytest.mark.parametrize("text", ["soak", "x", "host,,pairs"])
def test_a_stage_that_is_none(text):
    with pytest.raises(UsageError, match="--stages"):
        parse_stages(text)


@pytest.mark.parametrize(("text", "seconds"), [("", 0), ("90", 90), ("30m", 1800), ("2h", 7200)])
def test_a_soak_has_a_time(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["0", "-1", "1d", "x", "169h", "1.5h"])
def test_a_soak_that_is_no_time(text):
    with pytest.raises(UsageError, match="--soak"):
        parse_duration(text)


# --- soak --------------------------------------------------------------------------------------


def test_a_spell_that_lasts_is_found_and_one_slow_interval_is_not():
    times = [100.0 + number % 3 for number in range(60)]
    times[7] = 300.0
    assert list(stages_soak.slow_levels(times, None)) == []
    times[30:40] = [130.0 + number % 3 for number in range(10)]
    [found] = stages_soak.slow_levels(times, 1)
    assert "slower in intervals 30 to 39 of 60" in found.what
    assert "1.30 times as long" in found.what
    assert found.rail == 1


def test_a_soak_that_becomes_a_little_slower_is_no_finding():
    assert list(stages_soak.slow_levels([100.0] * 30 + [106.0] * 30, None)) == []
    assert list(stages_soak.slow_levels([], None)) == []


# --- resume ------------------------------------------------------------------------------------


def keep(runs, name, same, reports, results=None):
    (runs / name).mkdir(parents=True)
    (runs / name / resume.FILE).write_text(resume.as_text(same, reports))
    if results is not None:
        (runs / name / "results.json").write_text(json.dumps(results))
    return runs / name


def test_an_interrupted_run_gives_its_whole_stages_again(tmp_path):
    site = tmp_path / "site"
    same = resume.identity(site, ("n1", "n2"), Options(limit_s=5))
    report = StageReport("host", "said", 3.25, False, [Finding("w", "r", "n1", 2)], ["note"])
    report.left_out, report.intra_node_gb_s = {"n1": "why"}, 455.5
    report.paths = {"names": ["n1", "n2"], "rows": [[0, 1, 0, 0, 48.5, 1.0, 2.1, ""]]}
    run = keep(tmp_path / "runs", "20260101-000000-accept", same, [report])
    assert resume.find_run(same, tmp_path / "runs") == run
    again = resume.read_stages(run, resume.identity(site, ("n1", "n2"), Options()))["host"]
    assert (again.findings, again.left_out, again.notes) == (
        report.findings, report.left_out, report.notes,
    )  # fmt: skip
    assert (again.text, again.intra_node_gb_s) == (report.text, 455.5)
    assert again.paths == report.paths


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


def test_a_stage_is_the_same_after_it_was_kept():
    report = StageReport("host", "said")
    assert stages.stage_from(stages.stage_to_keep(report)) == report
