"""The stage `training` on four nodes over gloo, with ranks, a kernel and a network that are real.

All nodes share this machine's processors, so a number says nothing; who is slow does.
"""

import pytest
from tests.namespaces.nodes import LEFT
from tests.rank_hook import CPU_LIMIT, RANK_HOOK, SLOW_CPU, SLOW_DATA, late_steps
from tests.site_runs import SiteRuns

pytestmark = pytest.mark.hours  # with those of the lab: one subject, one set


@pytest.fixture
def runs(four_nodes):
    return SiteRuns(four_nodes.directory, four_nodes.site)


def train(runs):
    """Return exit code, what was printed, and the proven findings as node, level and rail."""
    code, said = runs.run("accept", "--ignore-validate", "--stages", "training")
    found = [(f["node"], f["level"], f["rail"]) for f in runs.results()["findings"] if f["proven"]]
    return code, said, found


def test_healthy_nodes_train_at_each_size_and_have_no_floor(four_nodes, runs):
    code, said, found = train(runs)
    assert (code, found) == (4, []), said
    assert "not accepted: the stage fleet was not selected" in said
    training = runs.results()["training"]
    points = {(p["nodes"], p["strategy"], p["plane"]) for p in training["points"]}
    assert {(n, s, "rail 0") for n in (1, 2, 4) for s in ("ddp", "fsdp")} <= points
    assert {(4, s, "rail 1") for s in ("ddp", "fsdp")} <= points
    assert training["least_efficiency"] is None
    assert "have no floor" in said
    last = next(p for p in training["points"] if (p["nodes"], p["plane"]) == (4, "rail 0"))
    assert last["step_us"] > 0 < last["predicted_us"]
    assert len(training["ranks"]) == 4 * 2 * 2  # ranks, strategies, rails
    assert [node.enter("sh", "-c", LEFT) for node in four_nodes.nodes.values()] == [""] * 4


@pytest.mark.parametrize(
    ("body", "level", "says"),
    [
        (CPU_LIMIT, "rank", "had a processor for"),
        (late_steps(0.5), "node", "its process is late"),
        (SLOW_CPU, "node", "its CPU alone"),
        (SLOW_DATA, "node", "the loader is late"),
    ],
    ids=["cpu limit", "late process", "slow CPU", "slow data"],
)
def test_a_slow_node_is_named_alone(four_nodes, runs, body, level, says):
    four_nodes.hook("node3", RANK_HOOK + body)
    code, said, found = train(runs)
    assert code == 1, said
    assert set(found) == {("node3", level, None)}, said
    assert says in said


def test_a_slow_rail_is_named_with_its_node(four_nodes, runs):
    four_nodes.slow_down("node2", "rail1", "10mbit")
    code, said, found = train(runs)
    assert code == 1, said
    assert {(node, rail) for node, _, rail in found} == {("node2", 1)}, said
    assert "training: rail 1" in said
