"""A fleet that is changed in batches through its scheduler, while jobs run on it."""

import os
import signal
import sys
import time
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.helpers.examples import examples
from tests.unit.helpers.sites import GOOD, write
from tests.unit.helpers.waiting import Time
from tests.unit.scheduler.test_scheduler_service import IDLE

from rdmaprov.exit_codes import ExitCode
from rdmaprov.interrupt import signals_interrupt
from rdmaprov.inventory import load_site
from rdmaprov.replace.batches import Batches
from rdmaprov.replace.journal import Journal
from rdmaprov.replace.roll import Roll
from rdmaprov.replace.steps import Replacement, Step, Stopped
from rdmaprov.scheduler.programs import SchedulerError
from rdmaprov.scheduler.service import POLL_S, StepOutcome
from rdmaprov.scheduler.units import MaintenanceUnit, units

NAMES = tuple(f"n{i}" for i in range(1, 13))
UNIT = "fabric_maintenance_unit"
WAIT_S, WORK_S, FOREVER = 60.0, 30.0, 1e9


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    hosts = "".join(f"    {name}: {{unit: {i}}}\n" for i, name in enumerate(NAMES, 1))
    files = {**GOOD, "hosts.yml": f"---\nnodes:\n  hosts:\n{hosts}"}
    return load_site(write(tmp_path_factory.mktemp("fleet") / "site", files)).nodes


def placed(nodes, leaves, racks, unit):
    where = zip(nodes, leaves, racks, strict=True)
    return [
        replace(node, values={"fabric_leaf": leaf, "fabric_rack": rack, UNIT: unit})
        for node, leaf, rack in where
    ]


class Cluster(Time):
    """Nodes of a scheduler whose jobs end at a time, proven by batches that take WORK_S."""

    def __init__(self, directory, jobs=None):
        super().__init__()
        self.now = {name: replace(IDLE, node=name) for name in NAMES}
        self.jobs = dict(jobs or {})
        self.broken: set[str] = set()
        self.refused: set[str] = set()
        self.applied: list[str] = []
        self.working: dict[str, float] = {}
        self.held_up: dict[str, float] = {}
        self.later, self.watch = [], lambda: None
        self.journal = Journal(directory, ("apply", "validate"))
        self._run_jobs()

    def _pause(self, seconds):
        super()._pause(seconds)
        self._run_jobs()
        for name, each in self.now.items():
            idles = each.is_ours and each.is_empty and name not in self.working
            if idles and "stopped" not in each.reason:
                self.held_up[name] = self.held_up.get(name, 0) + seconds
        if self.later and self.at >= self.later[0][0]:
            self.later.pop(0)[1]()

    def _run_jobs(self):
        for name, each in self.now.items():
            busy = self.jobs.get(name, 0) > self.at
            self.now[name] = replace(each, busy=busy, idle=not busy and not each.drains)

    def status(self, names):
        return {name: self.now[name] for name in names}

    def drain(self, node, reason):
        assert not self.now[node].drains or self.now[node].is_ours
        self.now[node] = replace(self.now[node], drains=True, idle=False, reason=reason)
        self.watch()

    def resume(self, node):
        assert self.now[node].is_ours
        self.now[node] = replace(self.now[node], drains=False, reason="")

    def each(self, names, wrong, code, **more):
        assert all(self.now[name].is_empty for name in names)
        ends = {name: StepOutcome(code, "broken", **more) for name in wrong.intersection(names)}
        return StepOutcome(code, "broken", ends) if ends else StepOutcome()

    def apply(self, names):
        self.applied += [name for name in names if name not in self.refused]
        return self.each(names, self.refused, ExitCode.UNKNOWN, untouched=True)

    def validate(self, names):
        return self.each(names, self.broken, ExitCode.FAILED)

    def member(self, names):
        steps = (Step("apply", self.apply, is_alone=True), Step("validate", self.validate))
        own: Any = self
        given = (tuple(names), (), steps, own, self.journal, WAIT_S)
        return Replacement(*given, clock=self.clock, verb="apply")

    def has_room(self):
        return len({*self.working.values()}) < 4

    def start(self, names):
        self.working |= dict.fromkeys(names, self.at + WORK_S)

    def ended(self):
        done = [name for name, at in self.working.items() if at <= self.at]
        if done:
            for name in done:
                del self.working[name]
            yield self.member(done).run_each()

    def stop(self):
        self.working = {}

    def roll(self, most=4, most_failed=0, groups=None):
        queue = list(groups or [MaintenanceUnit((name,)) for name in NAMES])
        own: Any = self
        roll = Roll(queue, most, most_failed, self.member, own)
        roll.run()
        return roll

    @property
    def out(self):
        return [name for name, each in self.now.items() if each.drains]


DOMAINS = st.lists(st.sampled_from(("", "a", "b", "c")), min_size=12, max_size=12)
ENDS = st.sampled_from((10.0, 14.0, 18.0, 22.0, 45.0, 100.0, FOREVER))
JOBS = st.dictionaries(st.sampled_from(NAMES), ENDS)


@settings(max_examples=examples(300, in_check=15))
@given(leaves=DOMAINS, racks=DOMAINS, most=st.integers(1, 12), jobs=JOBS, by_rack=st.booleans())
def test_roll_does_all_nodes_and_no_two_of_one_domain_at_once(
    nodes, tmp_path_factory, leaves, racks, most, jobs, by_rack
):
    groups = units(placed(nodes, leaves, racks, "rack" if by_rack else "node"))
    assert sorted(name for each in groups for name in each.nodes) == sorted(NAMES)
    cluster = Cluster(tmp_path_factory.mktemp("roll"), jobs)
    of = {name: each for each in groups for name in each.nodes}

    def watch():
        held = {of[name] for name in cluster.out}
        shared = [domain for each in held for domain in each.domains]
        assert len(held) <= (most if cluster.applied else 1)
        assert len(shared) == len(set(shared))

    cluster.watch = watch
    roll = cluster.roll(most, groups=groups)
    assert cluster.out == []
    busy = {name for name in NAMES if roll.ended[name].code}
    assert sorted(cluster.applied) == sorted(set(NAMES) - busy)
    assert busy <= {name for name, at in jobs.items() if at > WAIT_S}
    assert max(cluster.held_up.values(), default=0) < 2 * POLL_S
    assert all("still in use after 1 min 0 s" in roll.ended[name].text for name in busy)


def test_units_are_racks_where_the_site_says_so(nodes):
    found = units(placed(nodes, ["leaf"] * 12, ["r1", "r1", "r2", ""] + ["r2"] * 8, "rack"))
    assert [each.nodes for each in found] == [NAMES[:2], (NAMES[2], *NAMES[4:]), NAMES[3:4]]
    leaf = ("fabric_leaf", "leaf")
    assert [each.domains for each in found[::2]] == [(("fabric_rack", "r1"),), (leaf,)]


def test_node_that_fails_stays_out_and_most_failed_may(tmp_path):
    cluster = Cluster(tmp_path)
    cluster.broken = {"n3", "n5"}
    roll = cluster.roll(most=1, most_failed=0)
    assert cluster.applied == ["n1", "n2", "n3"]
    assert cluster.out == ["n3"]
    assert cluster.now["n3"].reason == "rdmaprov: apply stopped at validate: failed"
    assert roll.ended["n3"] == Stopped(ExitCode.FAILED, "validate", "broken", stays=True)
    assert [each.nodes for each in roll.queue] == [(name,) for name in NAMES[3:]]
    cluster.broken = {"n5"}
    cluster.roll(most=12, most_failed=1, groups=[*roll.queue, MaintenanceUnit(("n3",))])
    assert cluster.out == ["n5"]  # which the others of its batch were validated without
    assert sorted(cluster.applied) == sorted(NAMES)  # n3 was applied before


def test_node_that_was_not_changed_is_back_in_service_and_no_failure(tmp_path):
    """Not one that another controller left: it may have changed it, and knows where it stopped."""
    cluster = Cluster(tmp_path)
    cluster.refused = {"n2", "n7"}
    cluster.drain("n2", "rdmaprov: apply stopped at apply: failed")
    roll = cluster.roll(most_failed=1)
    assert cluster.out == ["n2"]
    assert sorted(cluster.applied) == sorted(set(NAMES) - cluster.refused)
    assert roll.ended["n7"] == Stopped(ExitCode.UNKNOWN, "apply", "broken", stays=False)


def test_node_that_somebody_else_drains_meanwhile_is_left_to_them(tmp_path):
    cluster = Cluster(tmp_path, {"n1": 50, **dict.fromkeys(NAMES[1:], FOREVER)})

    def take():
        for name in ("n1", "n12"):
            cluster.now[name] = replace(cluster.now[name], drains=True, reason="RMA 4711")

    cluster.later = [(10, take)]
    roll = cluster.roll()
    assert cluster.applied == []
    assert {cluster.now[name].reason for name in ("n1", "n12")} == {"RMA 4711"}
    assert cluster.out == ["n1", "n12"]
    assert {each.code for each in roll.ended.values()} == {ExitCode.UNKNOWN}


def test_interrupt_and_the_same_command_again_return_what_was_proven(tmp_path):
    cluster = Cluster(tmp_path, {"n12": 500.0})

    def interrupt():
        cluster.journal.begin("n2", "apply")
        raise KeyboardInterrupt

    cluster.later = [(WORK_S + 12, interrupt)]
    groups = [MaintenanceUnit(("n1",)), MaintenanceUnit(("n12",)), MaintenanceUnit(("n2",))]
    with pytest.raises(KeyboardInterrupt):
        cluster.roll(groups=groups)
    assert cluster.applied == ["n1"]
    assert cluster.out == ["n2"]  # n12 only waited for its job
    cluster.jobs = {}
    cluster._run_jobs()
    cluster.roll(groups=groups[1:])
    assert cluster.out == []
    assert cluster.applied == ["n1", "n2", "n12"]  # the empty one waits for nobody


def test_empty_node_waits_for_no_room(tmp_path):
    cluster = Cluster(tmp_path, {name: WORK_S + 4.0 * i for i, name in enumerate(NAMES)})
    cluster.roll(most=12)
    assert max(cluster.held_up.values(), default=0) < 2 * POLL_S


def test_scheduler_that_is_away_ends_the_start_of_new_nodes_and_no_work(tmp_path):
    cluster = Cluster(tmp_path)
    status = cluster.status

    def away(names):
        if 40 < cluster.at < 50:
            raise SchedulerError("scontrol: no answer in 30 s", "Run: scontrol ping")
        return status(names)

    cluster.status = away  # type: ignore[method-assign]
    roll = cluster.roll()
    assert cluster.applied == list(NAMES[:5])
    assert [each.nodes for each in roll.queue] == [(name,) for name in NAMES[5:]]
    assert cluster.out == []


def test_choice_among_five_thousand_nodes_takes_no_second(tmp_path, nodes):
    names = [f"n{i}" for i in range(5000)]
    fleet = [replace(nodes[0], name=name) for name in names]
    fleet = placed(fleet, [f"leaf{i // 32}" for i in range(5000)], names, "node")
    cluster: Any = Cluster(tmp_path)
    began = time.process_time()
    roll = Roll(units(fleet), 500, 0, cluster.member, cluster, {"n": Stopped()})
    chosen = roll._chosen({**dict.fromkeys(names, IDLE), "n0": replace(IDLE, busy=True)})
    assert (len(chosen), chosen[0]) == (157, "n1")  # n0 is not idle
    assert time.process_time() - began < 1


def finish(batches):
    found: dict[str, Stopped] = {}
    while batches.running:
        for each in batches.ended():
            found |= each
        time.sleep(0.01)
    return found


def test_batches_run_side_by_side_and_tell_what_they_printed_when_they_end():
    said: list[str] = []
    results: dict[str, int] = {}

    def prove(names):
        sys.stdout.write(f"proved {names[0]}\n")
        if names[0] == "n3":
            os.kill(os.getpid(), signal.SIGKILL)
        return {name: Stopped() for name in names}, dict.fromkeys(names, os.getpid())

    batches = Batches(prove, results.update, said.append)
    for name in NAMES[:4]:
        assert batches.has_room()
        batches.start([name])
    assert not batches.has_room()
    found = finish(batches)
    assert [found[name].code for name in ("n1", "n2", "n4")] == [ExitCode.OK] * 3
    assert (found["n3"].code, found["n3"].stays) == (ExitCode.UNKNOWN, True)
    assert len({*results.values(), os.getpid()}) == 4
    assert {"proved n1\n", "proved n2\n", "proved n4\n"} <= set(said)


def test_interrupted_batch_ends_and_is_not_proven():
    slow: Any = lambda _names: time.sleep(60)  # noqa: E731
    batches = Batches(slow, dict, lambda _text: None)
    with signals_interrupt():
        batches.start(["n1", "n2"])
        batches.stop()
    assert set(finish(batches)) == {"n1", "n2"}
