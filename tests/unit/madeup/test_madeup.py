"""The made-up fleet obeys physics, its whole gate runs, and its score counts what it says."""

import json
import re
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from bench.diagnosis import main
from click.testing import CliRunner
from tests.madeup import clock
from tests.madeup.accept import Acceptance, accept
from tests.madeup.collectives import costs
from tests.madeup.condition import Condition
from tests.madeup.faults import FAULTS, Truth, kinds
from tests.madeup.fleet import MadeUpFleet
from tests.madeup.flows import Team, parents
from tests.madeup.nodes import MadeUpNodes
from tests.madeup.runner import MadeUpRunner
from tests.madeup.shape import FleetShape, usual_shape
from tests.madeup.site import site_nodes
from tests.madeup.trials import judge, least_share, total
from tests.tables import cases

from rdmaprov.acceptance.agent.rank import KEPT_TASKS
from rdmaprov.acceptance.ask import shapes
from rdmaprov.acceptance.ask.nodes import ask_nodes, program_command
from rdmaprov.acceptance.preflight.needs import reader_request
from rdmaprov.acceptance.ranks import events as rank_events
from rdmaprov.acceptance.ranks.plan import GateJob, JobPlane, Task
from rdmaprov.acceptance.stage_report import USUAL
from rdmaprov.finding.finding import Finding

LARGE = 8 << 30


def team(shape, rails=None):
    own = tuple(range(shape.rails if rails is None else rails))
    return Team(tuple(range(shape.nodes)), tuple(range(shape.gpus)), (own,) * shape.nodes)


def busbw(condition, algorithm="RING", size=LARGE, rails=None):
    whole = team(condition.shape, rails)
    (cost,), _, _ = costs(condition, [whole], "all_reduce", [algorithm])
    return size / cost.us(size) / 1e3 * 2 * (whole.ranks - 1) / whole.ranks


def healthy(shape, efficiency=0.95):
    return Condition(shape, efficiency)


@pytest.mark.parametrize(("nodes", "algorithm", "published"), cases(__file__, "published"))
def test_a_healthy_fleet_reaches_what_was_published(nodes, algorithm, published):
    # Within the range of efficiencies that a made-up fleet can have, and 2 % of either end.
    shape = usual_shape(nodes)
    least, most = (busbw(healthy(shape, share), algorithm) for share in (0.84, 0.98))
    assert 0.98 * least <= published <= 1.02 * most


def test_rings_lose_with_the_number_of_nodes_and_trees_do_not():
    rings = [busbw(healthy(usual_shape(nodes)), "RING") for nodes in (2, 16, 64, 512)]
    trees = [busbw(healthy(usual_shape(nodes)), "NVLS_TREE") for nodes in (16, 64, 512)]
    assert rings == sorted(rings, reverse=True)
    assert rings[-1] < 0.7 * 400 < rings[0]
    assert min(trees) > 0.99 * max(trees)


def test_half_a_slot_gives_half():
    shape = usual_shape(16)
    whole, bad = healthy(shape), healthy(shape)
    bad.slot_gb_s[5, 3] /= 2
    # Of 400G a slot of 16 lanes carries more than the line, half of it 58 %.
    assert 0.46 <= busbw(bad) / 400 <= 0.58
    assert busbw(bad) / busbw(whole) == pytest.approx(0.58, abs=0.02)


def test_a_missing_rail_gives_seven_eighths():
    assert 0.70 <= busbw(healthy(usual_shape(16), 0.92), rails=7) / 400 <= 0.86


def test_a_ring_inside_its_leaves_does_not_see_half_of_the_uplinks():
    shape = usual_shape(64)
    whole, bad = healthy(shape), healthy(shape)
    bad.uplink_gb_s[0, : shape.per_leaf // 2] = 0
    assert busbw(bad) == busbw(whole)


def pairs_across(shape):
    half = shape.nodes // 2
    gpus, rails = tuple(range(shape.gpus)), (tuple(range(shape.rails)),) * 2
    return [Team((node, node + half), gpus, rails) for node in range(half)]


def pair_rates(condition):
    found, _, _ = costs(
        condition,
        pairs_across(condition.shape),
        "all_reduce",
        ["RING"] * (condition.shape.nodes // 2),
    )
    return [1 / cost.second_per_byte for cost in found]


def test_pairs_across_the_spine_see_half_of_the_uplinks():
    shape = usual_shape(64)
    whole, bad = healthy(shape), healthy(shape)
    bad.uplink_gb_s[0, : shape.per_leaf // 2] = 0
    shares = [b / w for b, w in zip(pair_rates(bad), pair_rates(whole), strict=True)]
    # The nodes of the first leaf, and nobody else.
    assert shares == pytest.approx([0.5] * shape.per_leaf + [1.0] * shape.per_leaf, abs=0.01)


def test_flows_collide_without_adaptive_routing():
    shape = usual_shape(64)
    bad = healthy(shape)
    bad.adaptive[:] = False
    shares = [b / w for b, w in zip(pair_rates(bad), pair_rates(healthy(shape)), strict=True)]
    assert min(shares) < 0.6


def test_loss_collapses_a_lossless_transport():
    shape = usual_shape(16)

    def share(loss):
        bad = healthy(shape)
        bad.loss[5, 3] = loss
        return busbw(bad) / busbw(healthy(shape))

    assert share(1e-6) > 0.99
    assert share(1e-3) < 0.3
    assert share(1e-2) < 0.05


def test_a_switch_without_pfc_harms_trees_more_than_rings():
    shape = usual_shape(16)
    bad = healthy(shape)
    bad.lossless[:] = False
    whole = healthy(shape)
    assert busbw(bad, "NVLS_TREE") / busbw(whole, "NVLS_TREE") < 0.5
    assert busbw(bad, "RING") / busbw(whole, "RING") > 0.9


def test_a_slow_gpu_slows_its_node_alone():
    bad = healthy(usual_shape(16))
    bad.gpu_gb_s[4, 2] *= 0.3
    gpus = tuple(range(8))
    alone = [Team((node,), gpus, ((),)) for node in range(16)]
    found, flows, _ = costs(bad, alone, "all_reduce", ["NVLS"] * 16)
    rates = [1 / cost.second_per_byte for cost in found]
    assert flows is None
    assert [rate < 0.5 * max(rates) for rate in rates] == [node == 4 for node in range(16)]


def test_a_tree_has_one_root_and_at_most_two_children():
    for many in (2, 3, 5, 8, 31, 512):
        above = parents(many)
        assert above.count(-1) == 1
        assert max(above.count(node) for node in range(many)) <= 2


def test_a_fleet_of_one_rail_has_one():
    assert 40 < busbw(healthy(FleetShape(4, gpus=1, rails=1, nvls=False, per_leaf=2))) < 50


NAMES = tuple(f"n{number}" for number in range(8))
LEAF = (0, 1, 2, 3)


def trial(truths, findings, verdict="refused"):
    fleet = SimpleNamespace(
        shape=SimpleNamespace(names=NAMES), truths=truths, seconds=1.0, stages={}
    )
    result = SimpleNamespace(verdict=verdict, findings=findings)
    said = [(7.0, findings[0].text), (9.0, "\n".join(each.text for each in findings))]
    of = {"fleet": fleet, "result": result, "rounds": 3, "said": said}
    return judge("kind", cast("Acceptance", SimpleNamespace(**of)))


def finding(level, *nodes, rail=None, proven=True):
    one = nodes[0] if len(nodes) == 1 else ""
    return Finding("part.slow", "bad", "Repair it", one, rail, proven, level=level, nodes=nodes)


@pytest.mark.parametrize(
    ("truths", "found", "named"),
    [
        ((Truth("rail", (1,), 3),), finding("rail", "n1", rail=3), (True, True, 0)),
        ((Truth("rail", (1,), 3),), finding("rail", "n1", rail=2), (True, False, 0)),
        ((Truth("rail", (1,), 3),), finding("node", "n1"), (True, False, 0)),
        ((Truth("rail", (1,), 3),), finding("rail", "n2", rail=3), (False, False, 1)),
        ((Truth("node", (1,)), Truth("rank", (1,))), finding("rank", "n1"), (True, True, 0)),
        ((Truth("pair", (1, 2), 3),), finding("pair", "n2", "n1"), (True, True, 0)),
        ((Truth("pair", (1, 2), 3),), finding("pair", "n1", "n4"), (True, False, 1)),
        ((Truth("leaf", LEAF, 3),), finding("leaf", "n0", "n1", "n2", "n3"), (True, True, 0)),
        ((Truth("leaf", LEAF, 3),), finding("leaf", "n0", "n1", "n2"), (True, False, 0)),
        ((Truth("fleet"),), finding("fleet", *NAMES), (True, True, 0)),
        ((Truth("fleet"),), finding("node", "n1"), (True, False, 1)),
        ((Truth("node", (1,)),), finding("fleet", *NAMES), (True, False, 1)),
        ((Truth("node", (1,)),), finding("node", "n2", proven=False), (False, False, 0)),
    ],
)
def test_a_finding_is_right_if_it_names_what_is_at_fault(truths, found, named):
    seen = trial(truths, [found])
    assert (seen.found, seen.named, seen.false) == named


def test_two_faults_at_once_are_named_if_both_are():
    truths = (Truth("rail", (1,), 3), Truth("rail", (2,), 4))
    first, second = finding("rail", "n1", rail=3), finding("rail", "n2", rail=4)
    assert not trial(truths, [first]).named
    both = trial(truths, [first, second])
    assert (both.named, both.named_s) == (True, 9.0)
    assert trial(truths[:1], [first, second]).named_s == 7.0


def test_an_accepted_fleet_finds_nothing():
    assert not trial((Truth("node", (1,)),), [finding("node", "n1")], "accepted").found


def test_totals_are_shares():
    bad = trial((Truth("node", (1,)),), [finding("node", "n1"), finding("node", "n2")])
    assert total([bad]) == {"recall": 1.0, "found": 1.0, "precision": 0.5}


def test_the_command_prints_a_table_and_the_same_one_again():
    words = ["--nodes", "8", "--trials", "1", "--fault", "rail-down", "--fault", "healthy"]
    words += ["--fault", "hung-kernel"]
    first, again = (CliRunner().invoke(main, words) for _ in range(2))
    assert first.exit_code == 0, first.output
    assert "| rail-down | rail | 1 | 100% | 100% | 0.00 |" in first.stdout
    assert "| hung-kernel | node | 1 | 100% | 100% | 0.00 |" in first.stdout
    last = first.stdout.splitlines()[-1]
    [seconds] = re.findall(r"after the ranks' start: hung-kernel (\d+) s", last)
    assert 0 < int(seconds) <= 180
    assert "recall 1.000" in first.stdout
    assert again.stdout == first.stdout


def test_a_run_that_was_cut_goes_on_after_the_trials_that_it_kept(tmp_path, monkeypatch):
    file = tmp_path / "kept.jsonl"
    words = ["--nodes", "4", "--fault", "healthy", "--kept", str(file), "--trials"]
    first = CliRunner().invoke(main, [*words, "1"])
    assert first.exit_code == 0, first.output
    ran = []

    def accept(_shape, _kind, seed, _noise, **_options):
        ran.append(seed)
        return whole()

    monkeypatch.setattr("tests.madeup.trials.accept", accept)
    with file.open("a", encoding="utf-8") as stream:
        stream.write('{"at": ["healthy", 4, 1')  # cut
    assert CliRunner().invoke(main, [*words, "3"]).exit_code == 0
    assert ran == [1, 2]


def test_in_little_time_kinds_take_turns(tmp_path, monkeypatch):
    ran: list[tuple[str, int]] = []
    ticks = SimpleNamespace(monotonic=lambda: 60.0 * len(ran))

    def accept(_shape, kind, seed, _noise, **_options):
        ran.append((kind.name, seed))
        return whole()

    monkeypatch.setattr("tests.madeup.trials.accept", accept)
    for module in ("tests.madeup.trials", "bench.diagnosis"):
        monkeypatch.setattr(f"{module}.time", ticks)
    words = ["--nodes", "4", "--fault", "acs", "--fault", "slow-rail", "--trials", "2"]
    words += ["--kept", str(tmp_path / "kept.jsonl"), "--minutes"]
    done = CliRunner().invoke(main, [*words, "3"])
    assert ran == [("acs", 0), ("slow-rail", 0), ("acs", 1)]
    assert CliRunner().invoke(main, [*words, "0"]).output == done.output
    assert "| acs | node | 2 |" in done.output
    assert "| slow-rail | rail | 1 |" in done.output


def whole():
    fleet = SimpleNamespace(shape=SimpleNamespace(names=NAMES), truths=(), seconds=1.0, stages={})
    result = SimpleNamespace(verdict="accepted", findings=[])
    return SimpleNamespace(fleet=fleet, result=result, rounds=3)


@pytest.mark.parametrize(
    ("hits", "count", "least"),  # the exact intervals: 0.025 ** (1 / n) where all hit
    [(1000, 1000, 0.99632), (126, 135, 0.87718), (3, 3, 0.29240), (0, 5, 0.0), (0, 0, 0.0)],
)
def test_the_least_share_is_that_of_clopper_and_pearson(hits, count, least):
    assert least_share(hits, count) == pytest.approx(least, abs=1e-4)


def test_a_kind_that_is_not_there_is_refused():
    done = CliRunner().invoke(main, ["--fault", "nonsense"])
    assert done.exit_code == 2
    assert "not one of healthy" in done.output


def test_the_docs_have_a_line_for_each_kind():
    text = (Path(__file__).parents[3] / "docs" / "diagnosis-table.md").read_text(encoding="utf-8")
    for kind in kinds(held_out=True):
        name = f"{kind.name} (held out)" if kind.held_out else kind.name
        assert f"| {name} | {kind.level} |" in text


KINDS = tuple(kind.name for kind in kinds(held_out=True))


def job(nodes=4, **more):
    names = usual_shape(nodes).names
    same = dict.fromkeys(names, "")
    return GateJob("nccl", names, 8, same, "10.10.0.1", 1, same, (JobPlane("all rails"),), **more)


def tasks(world):
    whole = (tuple(range(world)),)
    yield Task(
        0,
        "host",
        "all rails",
        tuple(tuple(range(n, n + 8)) for n in range(0, world, 8)),
        sizes=(1 << 20,),
    )
    yield Task(1, "pairs", "all rails", ((0, 8), (16, 24)), "exchange")
    yield Task(2, "groups", "all rails", whole, "all_to_all", (1 << 20,))
    yield Task(3, "fleet", "all rails", whole, sizes=(8, 1 << 20, 8 << 30))
    yield Task(4, "soak", "all rails", whole, sizes=(1 << 30,), soak_s=30)


def run(kind=None, seed=1, nodes=4):
    made = job(nodes, tasks=tuple(tasks(8 * nodes)))
    (ran,) = MadeUpRunner(MadeUpFleet(usual_shape(nodes), kind, seed)).run([made])
    return ran


@pytest.mark.parametrize("name", ["healthy", *KINDS])
def test_ranks_say_nothing_that_the_controller_would_not_take(name):
    ran = run(FAULTS.get(name))
    for event in ran.events:
        own = ran.job.ranks_of(ran.job.node_of(event["rank"]))
        line = json.dumps(event)
        assert rank_events.parse_event(line, own, ran.job.world, ran.tasks) == json.loads(line)


@pytest.mark.parametrize("name", ["healthy", *KINDS])
def test_nodes_answer_in_the_readers_shapes(name):
    shape = usual_shape(4)
    asked = {node.name: node for node in site_nodes(shape)}
    connection = MadeUpNodes(MadeUpFleet(shape, FAULTS.get(name), 1))
    for verb, check in (("preflight", shapes.preflight(8)), ("counters", shapes.counters(8))):
        requests = {host: reader_request(node, verb) for host, node in asked.items()}
        commands = {host: program_command("reader", one, 10) for host, one in requests.items()}
        answers = ask_nodes(connection, commands, partial(_same, check))
        lost = [node for node, answer in answers.items() if not isinstance(answer, dict)]
        assert len(lost) == (1 if name == "dead-node" else 0), answers


def _same(check, _node):
    return check


def seconds(*work, nodes=4, jobs=1):
    """Return what tasks of whole fleets take, and jobs side by side that have them."""
    fleet = MadeUpFleet(usual_shape(nodes), noise=0.0)
    with MadeUpRunner(fleet).open([job(nodes)] * jobs) as session:
        began = fleet.seconds
        for task in work:
            session.perform(dict.fromkeys(range(jobs), task))
        return round(fleet.seconds - began, 6)


SWEEP = Task(0, "fleet", "all rails", (tuple(range(32)),), sizes=(1 << 30,))


def test_jobs_side_by_side_take_as_long_as_the_slowest():
    assert seconds(SWEEP, jobs=4) == pytest.approx(seconds(SWEEP), abs=0.01)


def test_a_communicator_is_made_once_and_again_after_it_was_given_up():
    connect = clock.USUAL.connect(32)
    alone = seconds(SWEEP)
    assert seconds(SWEEP, replace(SWEEP, number=1)) == pytest.approx(2 * alone - connect, abs=0.01)
    given_up = replace(SWEEP, number=KEPT_TASKS + 1)
    assert seconds(SWEEP, given_up) == pytest.approx(2 * alone, abs=0.01)


def test_stages_have_all_seconds_of_the_fleet_and_more_on_the_harsh_clock():
    done = accept(usual_shape(4), seed=1).fleet
    usual, harsh = (sum(both) for both in zip(*done.stages.values(), strict=True))
    assert usual == pytest.approx(done.seconds)
    perftest, questions = clock.USUAL.perftest_s, done.stages["preflight"]
    assert done.stages["pairs"][0] > perftest
    assert questions[0] == questions[1]
    assert harsh > usual + 3 * (75 - 15)


def test_what_counters_prove_is_not_searched_in_parts_of_the_fleet():
    stages = ("state", "preflight", "fleet")
    result = accept(usual_shape(16), FAULTS["wrong-priority"], 100, stages=stages).result
    assert {each.kind for each in result.findings if each.nodes} >= {"traffic.priority"}
    assert any("a second fault shows in the next run" in note for note in result.notes)


def test_what_counters_prove_is_named_when_pairs_end_and_slows_no_fleet():
    done = accept(usual_shape(16), FAULTS["no-pfc-switch"], 100)
    found = {stage.name: [each.kind for each in stage.findings] for stage in done.result.stages}
    assert set(found.pop("pairs")) == {"packets.lost"}
    assert not any(found.values())
    assert len(done.result.stages[-1].left_out) == 0


def test_where_only_all_to_alls_are_slow_the_one_path_is_sought_first():
    result = accept(usual_shape(24), FAULTS["bad-path"], 1).result
    ran = {row["collective"] for row in result.tests if row["stage"] == "isolation"}
    assert ran == {"all_to_all"}
    assert [each.nodes for each in result.findings if each.nodes] == [("gpu009", "gpu018")]


def test_a_node_on_sockets_is_named_before_it_holds_up_others():
    stages = accept(usual_shape(4), FAULTS["socket-fallback"], 100).result.stages
    found = {stage.name: [each.kind for each in stage.findings] for stage in stages}
    assert (found["host"], found["pairs"]) == (["nccl.network"], [])


def test_a_seed_gives_the_same_events_again():
    assert run(FAULTS["lossy-rail"], 7).events == run(FAULTS["lossy-rail"], 7).events
    assert run(None, 7).events != run(None, 8).events


def test_a_busy_machine_changes_no_finding():
    """Rates are of the fleet's own time: before, a pause of the run made errors rare."""
    given = usual_shape(4), FAULTS["bad-optic"], 7
    waits = (lambda _line: None, lambda _line: time.sleep(0.1))
    runs = [accept(*given, on_stage=wait).result for wait in waits]
    first, second = ([(each.text, each.values) for each in run.findings] for run in runs)
    assert first == second != []


def test_a_healthy_fleet_of_16_nodes_is_accepted():
    done = accept(usual_shape(16), seed=1)
    assert (done.result.verdict, done.result.findings) == ("accepted", [])


@pytest.mark.long
def test_the_gate_runs_on_512_nodes_of_eight_gpus_in_less_than_a_gigabyte():
    require_little_memory(512, 1024)


@pytest.mark.program
def test_the_gate_runs_on_64_nodes_of_eight_gpus_in_little_memory():
    require_little_memory(64, 256)


def require_little_memory(nodes, most_mib):
    """Have a gate accept; the fleet's memory counts, too, in a process that is for it alone."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        ranks, verdict, said, most_bytes = pool.submit(accept_nodes, nodes).result()
    assert (ranks, verdict) == (8 * nodes, "accepted"), said
    assert most_bytes < most_mib << 20


def accept_nodes(nodes):
    """Return a healthy fleet's ranks, the verdict, its findings, and the memory that it took."""
    result = accept(usual_shape(nodes), seed=1).result
    ranks = result.ran.job.world if result.ran else 0
    said = [finding.text for finding in result.findings]
    # Not getrusage's: a new process has that of the one that started it.
    (most,) = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return ranks, result.verdict, said, 1024 * int(most)


def test_there_are_30_kinds_of_faults_and_some_are_kept_for_the_test():
    everything = list(kinds(held_out=True))
    assert len(everything) >= 30
    assert 5 <= sum(kind.held_out for kind in everything) < len(everything) / 3
    assert {kind.level for kind in everything} == {"node", "rank", "rail", "leaf", "pair", "fleet"}


def test_page_of_symptoms_has_what_the_gate_says_of_a_throttled_node():
    [kind] = [each for each in kinds() if each.name == "throttled-power"]
    [finding] = accept(usual_shape(16), kind, 1, stages=USUAL).result.findings
    assert f"\n{finding.text}\n" in (Path(__file__).parents[3] / "docs/symptoms.md").read_text()
