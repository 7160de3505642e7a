"""Nodes taken out of service and returned, on a scheduler that does what the test says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rdmaprov.exit_codes import ExitCode
from rdmaprov.scheduler.model import NodeStatus
from rdmaprov.scheduler.no_scheduler import NoScheduler
from rdmaprov.scheduler.service import Clock, give_back, note, take_out

IDLE = NodeStatus("n1", "idle", drains=False, busy=False, idle=True)
ADMINS = replace(IDLE, word="drained", drains=True, idle=False, reason="bad board")


class Made:
    """One node; `later` has what happens to it at each look from the second one on."""

    name = "made"

    def __init__(self, status, *later):
        self.now, self.later, self.done = status, list(later), []

    def status(self, nodes):
        seen = self.now
        if self.later:
            self.now = self.later.pop(0)(self.now)
        return dict.fromkeys(nodes, seen)

    def drain(self, node, reason):
        self.done.append(f"drain {node}: {reason}")
        self.now = replace(self.now, drains=True, idle=False, reason=reason)

    def resume(self, node):
        self.done.append(f"resume {node}")
        self.now = replace(self.now, drains=False, idle=not self.now.busy, reason="")

    def hold(self, nodes, label, seconds):
        self.done.append(f"hold {nodes} {label} {seconds}")

    def release(self, nodes, label):
        self.done.append(f"release {nodes} {label}")

    def resume_command(self, node):
        return f"resume {node}"


class Time:
    """A clock that runs only in pauses."""

    def __init__(self):
        self.at = 0.0
        self.clock = Clock(lambda: self.at, self._pause)

    def _pause(self, seconds):
        self.at += seconds


def keep(status):
    return status


def starts(status):
    return replace(status, busy=True, jobs=("7",))


def ends(status):
    return replace(status, busy=False, jobs=())


def out(made, **options):
    options = {"wait_s": 10, "clock": Time().clock, **options}
    return take_out(made, ["n1"], "replace", **options)["n1"]


def test_idle_node_is_drained_with_our_mark():
    made = Made(IDLE)
    assert out(made).is_ok
    assert made.done == ["drain n1: rdmaprov: replace"]


def test_job_that_started_before_the_drain_is_waited_for():
    said: list[str] = []
    made = Made(starts(IDLE), keep, keep, ends)
    assert out(made, tell=said.append).is_ok
    assert said == ["n1: idle (rdmaprov: replace) job 7; waiting up to 10.0 s"]
    assert made.now.drains


def test_job_that_starts_in_the_gap_between_look_and_drain_is_waited_for():
    made = Made(IDLE, starts, keep, ends)
    assert out(made).is_ok
    assert made.done == ["drain n1: rdmaprov: replace"]


def test_job_that_does_not_end_leaves_the_node_drained_and_unknown():
    made = Made(starts(IDLE))
    found = out(made)
    assert found.code is ExitCode.UNKNOWN
    assert "still in use after 10.0 s" in found.text
    assert made.now.is_ours


def test_somebody_s_reason_stays_and_the_node_counts_as_empty():
    said: list[str] = []
    made = Made(ADMINS)
    assert out(made, tell=said.append).is_ok
    assert made.done == []
    assert said == ["n1: drained (bad board): somebody else's reason, which stays"]


def test_somebody_s_reason_is_kept_in_ours_when_it_is_taken_over():
    made = Made(ADMINS)
    assert out(made, take_over=True).is_ok
    assert made.done == ["drain n1: rdmaprov: replace (was: bad board)"]


def test_reason_that_slurm_wrote_itself_is_nobody_s():
    made = Made(replace(IDLE, word="down", idle=False, up=False, reason="Not responding"))
    assert out(made).is_ok
    assert made.now.is_ours


def test_node_that_somebody_resumes_while_jobs_end_is_unknown():
    made = Made(starts(IDLE), keep, lambda _: IDLE)
    found = out(made)
    assert found.code is ExitCode.UNKNOWN
    assert found.text == "it was drained, and is not any more: idle"


def test_second_drain_of_ours_changes_no_reason():
    made = Made(replace(ADMINS, reason="rdmaprov: replace: validate failed"))
    assert out(made).is_ok
    assert made.done == []


def test_note_is_written_over_our_reason_alone():
    made = Made(replace(ADMINS, reason="rdmaprov: replace"))
    note(made, "n1", "validate failed")
    assert made.now.reason == "rdmaprov: validate failed"
    other = Made(ADMINS)
    note(other, "n1", "validate failed")
    assert other.done == []


def back(made, *, drained_by_us=True):
    return give_back(made, "n1", drained_by_us=drained_by_us, clock=Time().clock)


def test_node_that_we_drained_is_returned():
    made = Made(replace(ADMINS, reason="rdmaprov: replace"))
    assert back(made).is_ok
    assert made.done == ["resume n1"]


@pytest.mark.parametrize("drained_by_us", [True, False])
def test_node_that_somebody_drained_since_is_left(drained_by_us):
    made = Made(ADMINS)
    found = back(made, drained_by_us=drained_by_us)
    assert (found.code, made.done) == (ExitCode.PENDING, [])
    assert found.text.endswith("Return it by hand: resume n1")


def test_slurm_s_own_reason_over_ours_is_returned_only_if_we_drained_it():
    rebooted = replace(ADMINS, reason="Node unexpectedly rebooted")
    assert back(Made(rebooted)).is_ok
    assert back(Made(rebooted), drained_by_us=False).code is ExitCode.PENDING


def test_node_whose_daemon_starts_late_is_waited_for():
    def answers(status):
        return replace(status, up=True)

    made = Made(replace(ADMINS, reason="rdmaprov: replace", up=False), keep, answers)
    assert back(made).is_ok


def test_node_whose_daemon_stays_away_is_not_resumed():
    made = Made(replace(ADMINS, reason="rdmaprov: replace", up=False))
    found = back(made)
    assert (found.code, made.done) == (ExitCode.UNKNOWN, [])


def test_node_in_service_is_left_as_it_is():
    made = Made(IDLE)
    assert back(made).is_ok
    assert made.done == []


def test_without_a_scheduler_nothing_is_waited_for():
    none = NoScheduler()
    assert take_out(none, ["n1"], "x", wait_s=0)["n1"].is_ok
    assert give_back(none, "n1", drained_by_us=True).is_ok
