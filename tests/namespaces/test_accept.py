"""The acceptance gate on four nodes over gloo, with a kernel, a network and ranks that are real."""

import os
import signal

import pytest
from tests.namespaces.nodes import LEFT
from tests.rank_hook import HANG, RANK_HOOK
from tests.site_runs import TIMEOUT_S, SiteRuns
from tests.tables import cases

SIZES = ("--sizes", "16K:64K")
# Right values whenever they are verified first, and wrong ones in the timed iterations.
WRONG_LATER = cases(__file__, "wrong_later")


@pytest.fixture
def runs(four_nodes):
    return SiteRuns(four_nodes.directory, four_nodes.site)


def accept(runs, *words):
    """Return exit code, what was printed, and the proven findings as node and text."""
    code, said = runs.run("accept", "--ignore-validate", *SIZES, *words)
    return code, said, proven(runs)


def proven(runs):
    return [(f["node"], f["what"]) for f in runs.results()["findings"] if f["proven"]]


def left(fleet):
    return [node.enter("sh", "-c", LEFT) for node in fleet.nodes.values()]


def start_sweep(runs):
    words = ("--ignore-validate", *SIZES, "--stages", "fleet")
    return runs.start_until("accept", "ranks.jsonl", "rail 0: sweep", *words)


@pytest.mark.long
def test_healthy_nodes_pass_each_stage(four_nodes, runs):
    """Ranks have been in different numbers of groups when the second round of pairs begins."""
    code, said, found = accept(runs)
    assert (code, found) == (0, []), said
    states = {stage["name"]: stage["state"] for stage in runs.results()["stages"]}
    passed = dict.fromkeys(("preflight", "host", "pairs", "groups", "fleet"), "passed")
    assert states == passed | dict.fromkeys(("state", "gpu"), "skipped")
    assert "groups of 2 nodes: neighbours, across leaves, all alike" in said
    assert left(four_nodes) == [""] * 4


def test_tune_says_that_nodes_without_gpus_have_no_nccl(four_nodes, runs):
    code, said = runs.run("tune")
    assert code == 0, said
    assert "so NCCL does not run on them: leave the defaults" in said
    assert left(four_nodes) == [""] * 4


@pytest.mark.long
def test_a_rail_that_is_slow_in_pairs_is_named_and_its_node_left_out(four_nodes, runs):
    four_nodes.slow_down("node3", "rail1", "10mbit")
    code, said, found = accept(runs, "--stages", "pairs,fleet")
    assert code == 1, said
    assert {node for node, _ in found} == {"node3"}, said
    assert "1 node left out of the next stages: node3" in said


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (signal.SIGKILL, "killed"),
        pytest.param(signal.SIGSTOP, "its process is stopped", marks=pytest.mark.long),
    ],
)
def test_a_rank_that_gets_a_signal_in_the_sweep_is_named_alone(four_nodes, runs, number, says):
    started = start_sweep(runs)
    four_nodes.nodes["node2"].enter("pkill", f"-{number.value}", "-f", r"agent\.pyz [^ ]+ [0-9]+$")
    said, _ = started.communicate(timeout=TIMEOUT_S)
    assert started.returncode == 1, said
    found = proven(runs)
    assert {node for node, _ in found} == {"node2"}, said
    assert says in found[0][1]
    assert left(four_nodes) == [""] * 4


@pytest.mark.long
def test_a_rank_that_hangs_in_python_is_named_alone(four_nodes, runs):
    four_nodes.hook("node2", RANK_HOOK + HANG)
    code, said, found = accept(runs, "--stages", "fleet")
    assert code == 1, said
    assert {node for node, _ in found} == {"node2"}, said
    assert "rank 1 keeps the others waiting during 'rail 0: sweep'" in said
    assert left(four_nodes) == [""] * 4


@pytest.mark.long
def test_a_rank_that_is_wrong_in_timed_iterations_alone_is_named(four_nodes, runs):
    four_nodes.hook("node4", RANK_HOOK + WRONG_LATER)
    code, said, found = accept(runs, "--stages", "fleet")
    assert code == 1, said
    assert {node for node, _ in found} == {"node4"}, said


def test_a_node_that_dies_in_the_sweep_is_named_alone(four_nodes, runs):
    started = start_sweep(runs)
    four_nodes.nodes["node3"].kill()
    said, _ = started.communicate(timeout=TIMEOUT_S)
    assert started.returncode in (1, 4), said
    assert {f["node"] for f in runs.results()["findings"]} == {"node3"}, said


def test_ctrl_c_leaves_nothing_behind(four_nodes, runs):
    """A terminal sends it to all processes of the group, so to what reaches the nodes as well."""
    started = start_sweep(runs)
    os.killpg(started.pid, signal.SIGINT)
    said, _ = started.communicate(timeout=TIMEOUT_S)
    assert started.returncode == 130, said
    assert left(four_nodes) == [""] * 4
