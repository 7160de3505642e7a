"""The witnesses of a replaced node, always released; and what a new machine has otherwise."""

import json
import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console
from tests.site_runs import keep_validated
from tests.tables import cases
from tests.unit.helpers.sites import GOOD, write
from tests.unit.replace.test_replace_parts import FACTS, RAIL
from tests.unit.scheduler.test_scheduler_service import IDLE

from rdmaprov.cli import accept_run, node_proofs
from rdmaprov.cli.passwords import Passwords
from rdmaprov.cli.replace_looks import Looks, Proofs
from rdmaprov.cli.replace_work import Asked, Work
from rdmaprov.cli.session import Prepared
from rdmaprov.discover import reach
from rdmaprov.exit_codes import ExitCode
from rdmaprov.finding.finding import Finding
from rdmaprov.inventory import load_site
from rdmaprov.replace import hardware
from rdmaprov.replace.journal import Journal
from rdmaprov.replace.steps import PROOFS
from rdmaprov.runs.masks import Mask
from rdmaprov.runs.screen import Screen
from rdmaprov.scheduler.no_scheduler import NoScheduler
from rdmaprov.scheduler.service import StepOutcome

NAMES = tuple(f"n{i}" for i in range(1, 6))


class Scheduler:
    """Nodes that are idle, apart from n1, which is replaced; jobs start as nodes are held."""

    def __init__(self):
        self.now = {name: replace(IDLE, node=name) for name in NAMES}
        self.held: list[list[str]] = []
        self.released: list[list[str]] = []
        self.starts_on: set[str] = set()

    def status(self, names):
        return {name: self.now[name] for name in names}

    def hold(self, names, label, seconds):
        assert label.startswith("rdmaprov-")
        assert seconds > 0
        self.held.append(list(names))
        self._set_idle(names, idle=False)
        for name in self.starts_on.intersection(names):
            self.now[name] = replace(IDLE, node=name, idle=False, busy=True)

    def release(self, names, label):
        assert label.startswith("rdmaprov-")
        self.released.append(list(names))
        self._set_idle(names, idle=True)

    def _set_idle(self, names, *, idle):
        """Slurm calls a node reserved, not idle, as long as a reservation has it."""
        for name in names:
            if not self.now[name].busy:
                self.now[name] = replace(self.now[name], idle=idle)


@pytest.fixture
def made(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    hosts = "".join(f"    n{i}: {{unit: {i}}}\n" for i in range(1, 6))
    site = write(tmp_path / "site", {**GOOD, "hosts.yml": f"---\nnodes:\n  hosts:\n{hosts}"})
    good = {name: {"findings": 0} for name in NAMES}
    results = tmp_path / "runs/20261101-120000-accept/results.json"
    results.parent.mkdir(parents=True)
    results.write_text(json.dumps({"schema": 1, "site": str(site), "exit_code": 0, "nodes": good}))
    keep_validated(tmp_path, site, NAMES)
    mask = Mask([])
    screen = Screen(Console(quiet=True), mask)
    ready = Prepared(load_site(site), Passwords(None), mask, screen, ())
    journal = Journal(tmp_path / "runs/replace", PROOFS)
    scheduler: Any = Scheduler()
    work = Work(Asked(site, ("n1",), {}, False, "", (), 0), ready, scheduler, scheduler, journal)
    seen = SimpleNamespace(paths=[], gates=[], code=ExitCode.OK, findings=[])

    def validate(_site, part, *options):
        seen.paths.append((part.nodes, options))
        return StepOutcome()

    def gate(_site, _limit, part, options, chosen):
        seen.gates.append((part.nodes, chosen.launcher))
        seen.sizes = options.sizes
        result = SimpleNamespace(findings=seen.findings, exit_code=lambda: seen.code)
        return result, tmp_path / "runs/x-accept"

    monkeypatch.setattr(node_proofs, "validate_nodes", validate)
    monkeypatch.setattr(accept_run, "run_gate", gate)
    return work, seen


def test_node_is_measured_with_idle_witnesses_that_are_held(made):
    work, seen = made
    assert Proofs(work).accept(["n1"]).is_ok
    assert seen.paths == [(NAMES, ("test_path.py",))]
    assert seen.gates == [(NAMES, "ssh")]
    assert work.scheduler.held == [list(NAMES[1:])]
    assert work.scheduler.released == [list(NAMES[1:])]
    assert work.journal.get("n1", "held") == []


def test_gate_measures_with_the_sizes_that_were_asked_for(made):
    work, seen = made
    work.asked = replace(work.asked, sizes=(1024, 2048))
    assert Proofs(work).accept(["n1"]).is_ok
    assert seen.sizes == (1024, 2048)


def test_busy_witness_is_replaced_by_another_one(made):
    work, seen = made
    work.scheduler.now["n2"] = replace(IDLE, node="n2", idle=False, busy=True)
    work.scheduler.starts_on = {"n3"}
    assert Proofs(work).accept(["n1"]).is_ok
    assert work.scheduler.held == [["n3", "n4", "n5"], ["n4", "n5"]]
    assert work.scheduler.released == work.scheduler.held
    assert seen.gates == [(("n1", "n4", "n5"), "ssh")]


def test_no_idle_witness_is_said_and_nothing_is_measured(made):
    work, seen = made
    for name in NAMES:
        work.scheduler.now[name] = replace(IDLE, node=name, idle=False, busy=True)
    found = Proofs(work).accept(["n1"])
    assert found.code is ExitCode.UNKNOWN
    assert "no other node is known good (a passed accept) and idle" in found.text
    assert (seen.gates, work.scheduler.held) == ([], [])


def test_nodes_that_no_gate_has_passed_are_no_witnesses(made, tmp_path):
    work, seen = made
    (tmp_path / "runs/20261101-120000-accept/results.json").unlink()
    assert Proofs(work).accept(["n1"]).code is ExitCode.UNKNOWN
    assert seen.gates == []


def test_refused_node_is_named_and_its_witnesses_are_released(made):
    work, seen = made
    seen.code = ExitCode.FAILED
    seen.findings = [Finding("rail.slow", "rail 3 is slow", "check its cable", "n1", proven=True)]
    found = Proofs(work).accept(["n1"])
    assert found.code is ExitCode.FAILED
    assert found.text.endswith("x-accept; findings about n1")
    assert work.scheduler.released == [list(NAMES[1:])]


def test_interrupt_releases_the_witnesses(made):
    work, seen = made
    seen.code = ExitCode.INTERRUPTED
    with pytest.raises(KeyboardInterrupt):
        Proofs(work).accept(["n1"])
    assert work.scheduler.released == [list(NAMES[1:])]


def test_witnesses_of_a_killed_run_are_released_first(made):
    """Without that, none of them would be idle, and no run could go on until their time ends."""
    work, _ = made
    work.scheduler.hold(NAMES[1:], "rdmaprov-killed", 60)
    work.journal.note("n1", held=list(NAMES[1:]))
    assert Proofs(work).accept(["n1"]).is_ok
    assert work.scheduler.released == [list(NAMES[1:]), list(NAMES[1:])]


def test_without_a_scheduler_a_user_names_who_is_idle(made):
    work, seen = made
    work.scheduler = work.witness_scheduler = NoScheduler()
    assert Proofs(work).accept(["n1"]).code is ExitCode.UNKNOWN
    work.asked = replace(work.asked, witnesses="n4,n5")
    assert Proofs(work).accept(["n1"]).is_ok
    assert seen.gates == [(("n1", "n4", "n5"), "ssh")]


HOSTS = f"""\
---
nodes:
  hosts: {{n1: {{unit: 1}}, n2: {{unit: 2}}}}
  vars: {{ansible_connection: local, ansible_python_interpreter: {sys.executable}}}
"""
# Of the old machine; a group demands the other one.
OWN = "---\n# measured by hand\nfabric_numa_nodes: 4\n"
GROUP = "---\nfabric_gpu_count: 8\nfabric_memory_bytes: 4T\n"
NODE = {
    **FACTS,
    "gpu_module": "",
    "rails": [{**RAIL, **cases(__file__, "rail")}],
    "gpus": [{"pci": "0000:1a:00.0", "path": ["0000:1a:00.0"], "numa_node": 0}],
}


class Lines(Screen):
    def __init__(self):
        super().__init__(Console(quiet=True), Mask([]))
        self.lines: list[str] = []

    def show(self, line):
        self.lines.append(line.text)


@pytest.fixture
def work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files = {"hosts.yml": HOSTS, "host_vars/n1.yml": OWN, "group_vars/nodes.yml": GROUP}
    site = write(tmp_path / "site", {**GOOD, **files})
    ready = Prepared(load_site(site), Passwords(None), Mask([]), Lines(), ())
    journal = Journal(tmp_path / "runs/replace", PROOFS)
    found = reach.NodeFacts({"n1": NODE}, {})
    monkeypatch.setattr(reach, "read_nodes", lambda *_, **_more: found)
    scheduler: Any = Scheduler()
    return Work(Asked(site, ("n1",), {}, False, "", (), 0), ready, scheduler, scheduler, journal)


def text_of(work):
    return "\n".join(work.ready.screen.lines)


def test_own_variable_of_the_old_machine_is_shown_and_not_written_unasked(work):
    found = Looks(work).compare(["n1"])
    assert found.code is ExitCode.PENDING
    assert "Pass --yes" in found.text
    assert "n1: fabric_numa_nodes: the site has 4, the node 2\n" in text_of(work)
    assert (work.asked.site / "host_vars/n1.yml").read_text() == OWN


def test_own_variable_is_written_on_a_yes_and_a_group_s_demand_stays(work, monkeypatch):
    monkeypatch.setattr(
        "rdmaprov.cli.session.check_site",
        lambda site, *_: replace(work.ready, fleet=load_site(site)),
    )
    work.asked = replace(work.asked, yes=True)
    assert Looks(work).compare(["n1"]).is_ok
    said = text_of(work)
    assert (
        "n1: fabric_gpu_count: the site has 8, the node 1: set for its group, so it stays" in said
    )
    own = (work.asked.site / "host_vars/n1.yml").read_text()
    assert own == "---\n# measured by hand\nfabric_numa_nodes: 2\n"
    assert work.replaced.fleet.nodes[0].get("fabric_numa_nodes") == 2


def test_machine_that_was_returned_before_is_compared_with_its_successor(work):
    old = {**NODE, "rails": [{**RAIL, "card": "a088:c203:0099:9999"}]}
    hardware.keep(work.journal.directory, "n1", old)
    Looks(work).compare(["n1"])
    (line,) = [line for line in work.ready.screen.lines if line.startswith("n1: mlx5_0: ")]
    assert "GUID a088:c203:0099:9999" in line.partition(" → ")[0]
    assert "GUID a088:c203:0012:3456" in line.partition(" → ")[2]


def test_node_that_does_not_answer_is_unknown_and_drops_no_proof(work, monkeypatch):
    work.journal.bind("n1", "before")
    work.journal.keep("n1", "apply")
    gone = reach.NodeFacts({}, {"n1": "ssh: connection refused"})
    monkeypatch.setattr(reach, "read_nodes", lambda *_, **_more: gone)
    found = Looks(work).compare(["n1"])
    assert (found.code, found.text) == (ExitCode.UNKNOWN, "n1: ssh: connection refused")
    assert work.journal.has("n1", "apply")


@pytest.mark.program
def test_suite_runs_again_in_one_process_on_other_nodes(work, tmp_path):
    test = tmp_path / "test_mine.py"
    test.write_text("def test_node(host):\n    assert host.run('true').rc == 0\n")
    words = (str(test), "-p", "no:cacheprovider")
    for names in (("n1",), ("n1", "n2"), ("n2",)):
        found = node_proofs.validate_nodes(work.asked.site, work.only(names), *words)
        assert found.is_ok, found
        said = work.ready.screen.lines
        assert any(f"{len(names)} node" in line and "passed" in line for line in said), said
        said.clear()
