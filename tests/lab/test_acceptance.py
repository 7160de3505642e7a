"""The acceptance gate on two real nodes over gloo: green, and each fault named and cleaned up."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from rdmaprov.lab.model import Lab
from rdmaprov.lab.site import rail_address
from rdmaprov.resources import data_dir

pytestmark = [pytest.mark.lab, pytest.mark.unproven]

NODES = ("node1", "node2")
CHANGES = NODES
SIZES = ("--sizes", "8:512K")
TIMEOUT_S = 1500
SCHEMA = Path(__file__).parents[2] / "docs" / "acceptance.schema.json"
# What the role fabric does to a rail, until the next boot.
RAIL_UP = "ip link set {device} up && ip address replace {address} dev {device}"
LEFT = "ls -d /run/rdmaprov-accept* 2>/dev/null; pgrep -f 'rdmaprov-accept|agent.pyz'; true"
# A rank whose all_reduce is not torch's own any more, put there by Python's own start-up hook.
HOOK = """\
import importlib.abc, os, sys
class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "agent.rank":
            sys.meta_path.remove(self)
            change()
if "RANK" in os.environ:
    sys.meta_path.insert(0, Finder())
def change():
    import time
    import torch.distributed as dist
    reduce, send, calls = dist.all_reduce, dist.broadcast, []
"""
HANG = """\
    def all_reduce(*words, **options):
        calls.append(1)
        if len(calls) == 40:
            time.sleep(36000)
        return reduce(*words, **options)
    dist.all_reduce = all_reduce
"""
WRONG = """\
    def all_reduce(buffer, *words, **options):
        if buffer.numel() > 1000:
            buffer[777] += 3
        return reduce(buffer, *words, **options)
    def broadcast(buffer, src=None, **options):
        if src == dist.get_rank():
            buffer[777] += 3
        return send(buffer, src=src, **options)
    dist.all_reduce, dist.broadcast = all_reduce, broadcast
"""


class Gate:
    """`rdmaprov accept` on the lab's nodes, with what it left there."""

    def __init__(self, lab, site: Path, directory: Path) -> None:
        self.lab = lab
        self.site = site
        self.directory = directory
        self.results: dict[str, Any] = {}

    def argv(self, *words):
        return [sys.executable, "-m", "rdmaprov", "accept", str(self.site), *SIZES, *words]

    def run(self, *words):
        done = subprocess.run(
            self.argv(*words), cwd=self.directory, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
        self.read()
        return done

    def newest(self) -> Path:
        return max((self.directory / "runs").glob("*-accept*"), key=lambda path: path.name)

    def read(self):
        self.results = json.loads((self.newest() / "results.json").read_text())
        jsonschema.validate(self.results, json.loads(SCHEMA.read_text()))

    def blamed(self):
        """Return node and rail of what is proven to be wrong."""
        return {(f["node"], f["rail"]) for f in self.results["findings"] if f["proven"]}

    def left(self):
        """Return what is left of runs on the nodes."""
        return [self.lab.run(node, LEFT).strip() for node in NODES]


@pytest.fixture
def gate(lab, tmp_path):
    known = Lab.load(lab.layout.state)
    assert known is not None
    site = Path(shutil.copytree(known.site, tmp_path / "site"))
    (site / "group_vars").mkdir(exist_ok=True)
    shutil.copy(data_dir("inventory") / "lab" / "group_vars" / "all.yml", site / "group_vars")
    rails_up(lab)
    return Gate(lab, site, tmp_path)


def rails_up(lab):
    for number, node in enumerate(NODES, start=1):
        for rail in (0, 1):
            device = lab.netdev(node, rail)
            lab.run(node, RAIL_UP.format(device=device, address=rail_address(rail, number)))


@pytest.fixture
def fault(lab):
    """Provide a way to break a node; it is healed afterwards."""
    broken = []

    def inject(node, name, rail):
        broken.append(node)
        lab.must("fault", node, name, "--rail", str(rail))

    yield inject
    for node in broken:
        lab.must("heal", node)


def hooked(gate, node, body):
    """Have a node's Python change what torch does."""
    python = yaml.safe_load((gate.site / "group_vars" / "all.yml").read_text())[
        "torch_runtime_python"
    ]
    script = (
        f"mkdir -p /root/hook && cat > /root/hook/sitecustomize.py <<'END'\n{HOOK}{body}END\n"
        f"printf '#!/bin/sh\\nPYTHONPATH=/root/hook exec {python} \"$@\"\\n' > /root/hook/python\n"
        "chmod +x /root/hook/python"
    )
    gate.lab.run(node, script)
    use_python(gate, node, "/root/hook/python")


def use_python(gate, node, python):
    directory = gate.site / "host_vars"
    directory.mkdir(exist_ok=True)
    (directory / f"{node}.yml").write_text(f"torch_runtime_python: {python}\n")


def test_healthy_nodes_are_accepted(gate):
    done = gate.run()
    assert done.returncode == 0, done.stdout + done.stderr
    assert gate.results["verdict"] == "accepted"
    assert gate.results["world_size"] == 2
    assert [plane["name"] for plane in gate.results["planes"]] == ["rail 0", "rail 1"]
    for plane in gate.results["planes"]:
        assert plane["sizes_checked"] == [1 << power for power in range(3, 20)]
        assert {row["bytes"] for row in plane["rows"]} == set(plane["sizes_checked"])
        assert {(pair["from"], pair["to"]) for pair in plane["pairs"]} == {NODES, NODES[::-1]}
    assert "does not prove GPU bandwidth" in done.stdout
    assert gate.left() == ["", ""]


@pytest.mark.parametrize(
    ("name", "says"), [("rail-slow", "slow"), ("rail-drops-packets", "were sent again")]
)
def test_a_bad_rail_is_named(gate, fault, name, says):
    fault("node2", name, 1)
    done = gate.run()
    assert done.returncode == 1, done.stdout + done.stderr
    assert ("node2", 1) in gate.blamed()
    assert all(rail == 1 for _, rail in gate.blamed())
    assert any(says in f["what"] for f in gate.results["findings"] if f["node"] == "node2")
    assert gate.left() == ["", ""]


def test_a_wrong_address_is_named_before_anything_runs(gate, fault):
    fault("node2", "rail-addresses-swapped", 0)
    done = gate.run()
    assert done.returncode == 1, done.stdout + done.stderr
    assert gate.blamed() == {("node2", 0), ("node2", 1)}
    assert gate.results["planes"] == []
    assert gate.left() == ["", ""]


def test_a_python_without_torch_is_named(gate):
    use_python(gate, "node2", "/usr/bin/python3")
    done = gate.run()
    assert done.returncode == 1, done.stdout + done.stderr
    assert gate.blamed() == {("node2", None)}
    assert "no torch in /usr/bin/python3" in done.stdout
    assert gate.left() == ["", ""]


def test_a_rank_that_hangs_is_named(gate):
    hooked(gate, "node2", HANG)
    done = gate.run()
    assert done.returncode == 1, done.stdout + done.stderr
    assert gate.blamed() == {("node2", None)}
    assert "rank 1 keeps the others waiting in 'rail 0: sweep'" in done.stdout
    assert gate.left() == ["", ""]


def test_a_rank_that_sends_wrong_values_is_named(gate):
    hooked(gate, "node2", WRONG)
    done = gate.run()
    assert done.returncode == 1, done.stdout + done.stderr
    assert gate.blamed() == {("node2", 0), ("node2", 1)}
    assert "what rank 1 sends arrives wrong" in done.stdout
    assert gate.left() == ["", ""]


def test_an_interrupt_leaves_nothing_behind(gate):
    started = begun(gate)
    started.send_signal(2)
    out, errors = started.communicate(timeout=TIMEOUT_S)
    gate.read()
    assert started.returncode == 130, out + errors
    assert gate.results["verdict"] == "interrupted"
    assert gate.left() == ["", ""]


def test_a_node_that_dies_in_the_middle_is_named(gate):
    started = begun(gate)
    gate.lab.call("node2", "(sleep 1; echo b >/proc/sysrq-trigger) >/dev/null 2>&1 &")
    out, errors = started.communicate(timeout=TIMEOUT_S)
    gate.read()
    assert started.returncode == 1, out + errors
    assert gate.blamed() == {("node2", None)}
    end = time.monotonic() + TIMEOUT_S
    while gate.lab.call("node2", "true").returncode and time.monotonic() < end:
        time.sleep(1)
    assert gate.left() == ["", ""]


def begun(gate):
    """Return a run of the gate that is in a sweep."""
    started = subprocess.Popen(
        gate.argv(), cwd=gate.directory, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    end = time.monotonic() + TIMEOUT_S
    while time.monotonic() < end:
        logs = list((gate.directory / "runs").glob("*-accept*/logs/ranks.jsonl"))
        if logs and "rail 0: sweep" in logs[0].read_text():
            return started
        assert started.poll() is None, started.communicate()
        time.sleep(0.5)
    raise AssertionError("the gate did not begin a sweep")
