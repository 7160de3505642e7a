"""The acceptance gate on two real nodes over gloo: each fault is named and cleaned up.

That it accepts healthy nodes by its last stage is in the demonstration, in test_provision. Each run
imports torch twice on each node, a minute and a half of an emulated processor: what
tests/namespaces has as well is marked `hours`.
"""

import signal
from typing import Any

import jsonschema
import pytest
import yaml
from tests.lab.fleet import LEFT, SCHEMA, Fleet, leftovers_of_accept
from tests.rank_hook import HANG, RANK_HOOK

pytestmark = pytest.mark.lab

STATE = "provisioned"
SIZES = "16K:64K"
# A rank that sends wrong values, each time.
WRONG = """\
    def all_reduce(buffer, *words, **options):
        if buffer.numel() > 1000:
            buffer[777] += 3
        return reduce(buffer, *words, **options)
    def all_gather(out, buffer, **options):
        buffer = buffer.clone()
        buffer[777] += 3
        return gather(out, buffer, **options)
    dist.all_reduce, dist.all_gather_into_tensor = all_reduce, all_gather
"""


class Gate:
    """`rdmaprov accept` on the lab's nodes, with what it left there."""

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
        """Return a run that is in a sweep."""
        return self.fleet.start_until(
            "accept",
            "ranks.jsonl",
            "rail 0: sweep",
            "--ignore-validate",
            "--sizes",
            SIZES,
            "--stages",
            "fleet",
        )

    def wait_for(self, started):
        """Return the exit code of a run, and what it printed."""
        code, said = self.fleet.end(started)
        self.read()
        return code, said

    def read(self):
        self.results = self.fleet.results()
        jsonschema.validate(self.results, SCHEMA)

    def suspects(self):
        """Return node and rail of what is proven to be wrong."""
        return {(f["node"], f["rail"]) for f in self.results["findings"] if f["proven"]}

    def leftovers(self):
        """Return what is left of runs on the nodes."""
        return leftovers_of_accept(self.lab)


@pytest.fixture
def gate(lab, tmp_path):
    return Gate(lab, Fleet(lab, tmp_path))


def hook(gate, node, body):
    """Have a node's Python change what torch does."""
    python = yaml.safe_load((gate.fleet.site / "group_vars" / "all.yml").read_text())[
        "torch_runtime_python"
    ]
    script = (
        f"mkdir -p /root/hook && cat > /root/hook/sitecustomize.py <<'END'\n{RANK_HOOK}{body}END\n"
        f"printf '#!/bin/sh\\nPYTHONPATH=/root/hook exec {python} \"$@\"\\n' > /root/hook/python\n"
        "chmod +x /root/hook/python"
    )
    gate.lab.run(node, script)
    use_python(gate, node, "/root/hook/python")


def use_python(gate, node, python):
    directory = gate.fleet.site / "host_vars"
    directory.mkdir(exist_ok=True)
    (directory / f"{node}.yml").write_text(f"torch_runtime_python: {python}\n")


@pytest.mark.hours
def test_healthy_nodes_pass_each_stage(gate):
    """Each node alone with two ranks, then both as a pair, then all collectives of the fleet."""
    code, said = gate.run(stages="host,pairs,groups")
    assert code == 4, said
    assert "not accepted: the stage fleet was not selected" in said
    assert {stage["name"]: stage["state"] for stage in gate.results["stages"]} == {
        "state": "passed",
        "preflight": "passed",
        "host": "passed",
        "pairs": "passed",
        "groups": "skipped",
    }
    assert gate.leftovers() == ["", ""]


@pytest.mark.parametrize(
    ("name", "says", "sizes"),
    [
        # Smaller ones take emulated processors longer than a slow rail.
        pytest.param("rail-slow", "slow", "512K:1M", marks=pytest.mark.hours),
        ("rail-drops-packets", "TCP retransmissions", SIZES),
    ],
)
def test_a_bad_rail_is_named(gate, name, says, sizes):
    gate.lab.must("fault", "node2", name, "--rail", "1")
    code, said = gate.run(sizes)
    assert code == 1, said
    assert ("node2", 1) in gate.suspects()
    assert all(rail == 1 for _, rail in gate.suspects())
    assert any(says in f["what"] for f in gate.results["findings"] if f["node"] == "node2")
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


@pytest.mark.hours
def test_a_rank_that_hangs_is_named(gate):
    hook(gate, "node2", HANG)
    code, said = gate.run()
    assert code == 1, said
    assert gate.suspects() == {("node2", None)}
    assert "rank 1 keeps the others waiting during 'rail 0: sweep'" in said
    assert gate.leftovers() == ["", ""]


@pytest.mark.hours
def test_a_rank_that_hangs_alone_is_named_before_the_fleet_runs(gate):
    """Its node is left out of what follows, and one node is no fleet."""
    hook(gate, "node2", HANG)
    code, said = gate.run(stages="host,fleet")
    assert code == 1, said
    assert gate.suspects() == {("node2", None)}
    assert "host: 1 node left out of the next stages: node2" in said
    assert [stage["name"] for stage in gate.results["stages"]][-1] == "host"
    assert gate.leftovers() == ["", ""]


@pytest.mark.hours
def test_a_rank_that_sends_wrong_values_is_named(gate):
    hook(gate, "node2", WRONG)
    code, said = gate.run()
    assert code == 1, said
    assert gate.suspects() == {("node2", 0), ("node2", 1)}
    assert "data from rank 1 arrives wrong" in said
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
