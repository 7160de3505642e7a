"""The acceptance gate on two real nodes over gloo: each fault is named and cleaned up.

That it accepts healthy nodes is in the demonstration, in test_provision. Each run imports torch
twice on each node, a minute and a half of an emulated processor: slow rails, hangs and wrong values
are in tests/namespaces alone, with real ranks and a real kernel, too.
"""

import signal
from typing import Any

import jsonschema
import pytest
from tests.lab.fleet import LEFT, SCHEMA, Fleet, leftovers_of_accept

pytestmark = pytest.mark.lab

STATE = "provisioned"
SIZES = "16K:64K"


class Gate:
    def __init__(self, lab, fleet: Fleet) -> None:
        self.lab = lab
        self.fleet = fleet
        self.results: dict[str, Any] = {}

    def run(self, sizes=SIZES, stages="fleet"):
        code, said = self.fleet.run(
            "accept", "--ignore-validate", "--sizes", sizes, "--stages", stages
        )
        self.read()
        return code, said

    def start_sweep(self):
        return self.fleet.start_until(
            *("accept", "ranks.jsonl", "rail 0: sweep", "--ignore-validate", "--sizes", SIZES),
            *("--stages", "fleet"),
        )

    def wait_for(self, started):
        code, said = self.fleet.end(started)
        self.read()
        return code, said

    def read(self):
        self.results = self.fleet.results()
        jsonschema.validate(self.results, SCHEMA)

    def suspects(self):
        return {(f["node"], f["rail"]) for f in self.results["findings"] if f["proven"]}

    def leftovers(self):
        return leftovers_of_accept(self.lab)


@pytest.fixture
def gate(lab, tmp_path):
    return Gate(lab, Fleet(lab, tmp_path))


def use_python(gate, node, python):
    directory = gate.fleet.site / "host_vars"
    directory.mkdir(exist_ok=True)
    (directory / f"{node}.yml").write_text(f"torch_runtime_python: {python}\n")


def test_a_bad_rail_is_named(gate):
    gate.lab.must("fault", "node2", "rail-drops-packets", "--rail", "1")
    code, said = gate.run()
    assert code == 1, said
    assert ("node2", 1) in gate.suspects()
    assert all(rail == 1 for _, rail in gate.suspects())
    found = [f["what"] for f in gate.results["findings"] if f["node"] == "node2"]
    assert any("TCP retransmissions" in what for what in found)
    assert gate.leftovers() == ["", ""]


def test_a_wrong_address_is_named_before_anything_runs(gate):
    gate.lab.must("fault", "node2", "rail-addresses-swapped")
    code, said = gate.run()
    assert code == 1, said
    assert gate.suspects() == {("node2", 0), ("node2", 1)}
    assert gate.results["planes"] == []
    assert gate.leftovers() == ["", ""]


def test_a_python_without_torch_is_named(gate):
    use_python(gate, "node2", "/usr/bin/python3")
    code, said = gate.run()
    assert code == 1, said
    assert gate.suspects() == {("node2", None)}
    assert "no torch in /usr/bin/python3" in said
    assert gate.leftovers() == ["", ""]


def test_an_interrupt_leaves_nothing_behind(gate):
    started = gate.start_sweep()
    started.send_signal(signal.SIGINT)
    code, said = gate.wait_for(started)
    assert code == 130, said
    assert gate.results["verdict"] == "interrupted"
    assert gate.leftovers() == ["", ""]


def test_a_node_that_dies_in_the_middle_is_named(gate):
    started = gate.start_sweep()
    gate.lab.call("node2", "(sleep 1; echo b >/proc/sysrq-trigger) >/dev/null 2>&1 &")
    code, said = gate.wait_for(started)
    assert code == 1, said
    assert gate.suspects() == {("node2", None)}
    gate.lab.disconnect()
    assert gate.lab.run("node1", LEFT).strip() == ""  # what is under /run of the other one is gone
