"""The stage `training` on two real nodes over gloo: a slow process, CPU and rail are each named."""

from __future__ import annotations

import jsonschema
import pytest
from tests.lab.fleet import SCHEMA, Fleet, leftovers_of_accept
from tests.lab.test_acceptance import hook
from tests.rank_hook import CPU_LIMIT, SLOW_CPU, late_steps

pytestmark = [pytest.mark.lab, pytest.mark.long]

STATE = "provisioned"


class TrainingGate:
    """`rdmaprov accept --stages training` on the lab's nodes."""

    def __init__(self, lab, fleet: Fleet) -> None:
        self.lab, self.fleet = lab, fleet

    def train(self):
        """Return exit code, what was printed, and node, level and rail of proven findings."""
        code, said = self.fleet.run("accept", "--stages", "training")
        results = self.fleet.results()
        jsonschema.validate(results, SCHEMA)
        assert leftovers_of_accept(self.lab) == ["", ""]
        proven = (f for f in results["findings"] if f["proven"])
        return code, said, {(f["node"], f["level"], f["rail"]) for f in proven}


@pytest.fixture
def gate(lab, tmp_path):
    return TrainingGate(lab, Fleet(lab, tmp_path))


def test_healthy_nodes_train(gate):
    code, said, found = gate.train()
    assert (code, found) == (4, set()), said  # the stage fleet was not selected
    points = gate.fleet.results()["training"]["points"]
    assert {(p["nodes"], p["strategy"]) for p in points} == {
        (1, "ddp"), (1, "fsdp"), (2, "ddp"), (2, "fsdp"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("body", "level"),
    # A step takes an emulated node a second, and less than thrice that is nothing over gloo.
    [(CPU_LIMIT, "rank"), (late_steps(4), "node"), (SLOW_CPU, "node")],
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
