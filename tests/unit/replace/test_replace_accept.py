"""The witnesses of a replaced node: held while it is measured, never busy, always released."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
from rich.console import Console
from tests.site_runs import keep_validated
from tests.unit.helpers.sites import GOOD, write
from tests.unit.scheduler.test_scheduler_service import IDLE

from rdmaprov.cli import accept_run, node_proofs
from rdmaprov.cli.passwords import Passwords
from rdmaprov.cli.replace_looks import Proofs
from rdmaprov.cli.replace_work import Asked, Work
from rdmaprov.cli.session import Prepared
from rdmaprov.exit_codes import ExitCode
from rdmaprov.finding.finding import Finding
from rdmaprov.inventory import load_site
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

    def drain(self, node, reason):
        raise AssertionError(node, reason)

    def resume(self, node):
        raise AssertionError(node)

    def resume_command(self, node):
        return node


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
    scheduler = Scheduler()
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
    assert seen.paths == [(("n1", "n2", "n3"), ("test_path.py",))]
    assert seen.gates == [(("n1", "n2", "n3"), "ssh")]
    assert work.scheduler.held == [["n2", "n3"]]
    assert work.scheduler.released == [["n2", "n3"]]
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
    assert work.scheduler.held == [["n3", "n4"], ["n4", "n5"]]
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
    assert work.scheduler.released == [["n2", "n3"]]


def test_interrupt_releases_the_witnesses(made):
    work, seen = made
    seen.code = ExitCode.INTERRUPTED
    with pytest.raises(KeyboardInterrupt):
        Proofs(work).accept(["n1"])
    assert work.scheduler.released == [["n2", "n3"]]


def test_witnesses_of_a_killed_run_are_released_first(made):
    """Without that, none of them would be idle, and no run could go on until their time ends."""
    work, _ = made
    work.scheduler.hold(NAMES[1:], "rdmaprov-killed", 60)
    work.journal.note("n1", held=list(NAMES[1:]))
    assert Proofs(work).accept(["n1"]).is_ok
    assert work.scheduler.released == [list(NAMES[1:]), ["n2", "n3"]]


def test_without_a_scheduler_a_user_names_who_is_idle(made):
    work, seen = made
    work.scheduler = work.witness_scheduler = NoScheduler()
    assert Proofs(work).accept(["n1"]).code is ExitCode.UNKNOWN
    work.asked = replace(work.asked, witnesses="n4,n5")
    assert Proofs(work).accept(["n1"]).is_ok
    assert seen.gates == [(("n1", "n4", "n5"), "ssh")]
