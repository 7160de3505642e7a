"""The stage `training` on real nodes over gloo: a slow process, CPU and rail are each named."""

from itertools import product

import jsonschema
import pytest
from tests.lab.fleet import FOUR, NODES, SCHEMA, Fleet, leftovers_of_accept
from tests.lab.test_acceptance import hook
from tests.rank_hook import CPU_LIMIT, SLOW_CPU, late_steps

pytestmark = [pytest.mark.lab, pytest.mark.hours]

STATE = "provisioned"
# A step takes an emulated node a second, and less than thrice that is nothing over gloo.
LATE = late_steps(4)
STRATEGIES = ("ddp", "fsdp")


class TrainingGate:
    """`rdmaprov accept --stages training` on nodes of a lab."""

    def __init__(self, lab, fleet: Fleet, nodes=NODES) -> None:
        self.lab, self.fleet, self.nodes = lab, fleet, nodes

    def train(self):
        """Return exit code, what was printed, and node, level and rail of proven findings."""
        code, said = self.fleet.run("accept", "--ignore-validate", "--stages", "training")
        results = self.fleet.results()
        jsonschema.validate(results, SCHEMA)
        assert leftovers_of_accept(self.lab, self.nodes) == ["" for _ in self.nodes]
        proven = (f for f in results["findings"] if f["proven"])
        return code, said, {(f["node"], f["level"], f["rail"]) for f in proven}


@pytest.fixture
def gate(lab, tmp_path):
    return TrainingGate(lab, Fleet(lab, tmp_path))


@pytest.fixture
def gate_of_four(fleet_of_four, tmp_path):
    lab = fleet_of_four.lab
    yield TrainingGate(lab, Fleet(lab, tmp_path), FOUR)
    for node in FOUR:
        lab.must("heal", node)


def healthy_points(gate):
    """Return number of nodes and strategy of each point of healthy nodes."""
    code, said, found = gate.train()
    assert (code, found) == (4, set()), said  # the stage fleet was not selected
    points = gate.fleet.results()["training"]["points"]
    return {(point["nodes"], point["strategy"]) for point in points}


def test_healthy_nodes_train(gate):
    assert healthy_points(gate) == set(product((1, 2), STRATEGIES))


def test_four_healthy_nodes_train(gate_of_four):
    assert healthy_points(gate_of_four) == set(product((1, 2, 4), STRATEGIES))


@pytest.mark.parametrize(
    ("node", "body"), [("node2", SLOW_CPU), ("node3", LATE)], ids=["slow CPU", "late process"]
)
def test_a_slow_node_of_four_is_named(gate_of_four, node, body):
    hook(gate_of_four, node, body)
    code, said, found = gate_of_four.train()
    assert code == 1, said
    assert {(where, rail) for where, _, rail in found} == {(node, None)}, said


def test_a_slow_rail_of_four_nodes_is_named(gate_of_four):
    gate_of_four.lab.must("fault", "node4", "rail-slow", "--rail", "1")
    code, said, found = gate_of_four.train()
    assert code == 1, said
    assert {(node, rail) for node, _, rail in found} == {("node4", 1)}, said


@pytest.mark.parametrize(
    ("body", "level"),
    [(CPU_LIMIT, "rank"), (LATE, "node"), (SLOW_CPU, "node")],
    ids=["cpu limit", "late process", "slow CPU"],
)
def test_a_slow_node_is_named(gate, body, level):
    hook(gate, "node2", body)
    code, said, found = gate.train()
    assert code == 1, said
    assert found == {("node2", level, None)}, said


def test_a_slow_rail_is_named_with_its_node(gate):
    gate.lab.must("fault", "node2", "rail-slow", "--rail", "1")
    code, said, found = gate.train()
    assert code == 1, said
    assert {(node, rail) for node, _, rail in found} == {("node2", 1)}, said
