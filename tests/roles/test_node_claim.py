"""A run's claim to a node: who is named, how long it waits, whose lock it may replace."""

import os
import subprocess
import sys
import types
from dataclasses import asdict, replace
from itertools import pairwise
from typing import Any

import pytest
from plugins.plugin_utils.answers import Held, Odd, held_answer, role_answer
from plugins.plugin_utils.holder import Holder, living, of_process
from plugins.plugin_utils.node_lock import LAST_TASK_S, MOST_STEP_S, NodeClaim, next_round, refusal

THEIRS = Holder("b" * 32, "ana", "ctl2", 4711, "2026-01-01 00:00:00 UTC", "/runs/1", "boot ns", 9)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ended() -> Holder:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        return of_process(process.pid, "/runs/2")


def claim(clock: Clock, wait_s: float = 0.0) -> NodeClaim:
    holder = asdict(of_process(os.getpid(), "/runs/3"))
    variables = {"apply_lock": {"holder": holder, "wait_s": wait_s}}
    return NodeClaim(variables, False, clock, clock.pause)


def waited(one: NodeClaim, clock: Clock, held: Held) -> float:
    """Return after how long a claim gives up on a node that stays held."""
    while one.try_again(held):
        pass
    return clock.now


def test_run_names_itself_and_keeps_the_node(clock: Clock):
    request = claim(clock).request()
    assert (request["keep"], request["replace"]) == (True, "")
    assert (request["holder"]["pid"], request["holder"]["run"]) == (os.getpid(), "/runs/3")


def test_plain_playbook_holds_the_node_while_a_role_runs():
    request = NodeClaim({}, False).request()
    assert (request["keep"], request["holder"]["pid"]) == (False, os.getppid())
    assert NodeClaim({}, True).request() == {}


def test_other_run_is_refused_at_once_or_waited_for(clock: Clock):
    for running in (True, False):
        assert waited(claim(clock), clock, Held(THEIRS, running, 60)) == 0
    assert waited(claim(clock), clock, Held(None, True, 0)) == 0
    assert 60 <= waited(claim(clock, 60), clock, Held(THEIRS, True, 60)) < 65


def test_run_that_ended_here_is_replaced_at_once(clock: Clock, ended: Holder):
    one = claim(clock)
    assert one.try_again(Held(ended, False, 600))
    assert clock.now == 0
    assert one.request()["replace"] == ended.id
    assert not claim(clock).try_again(Held(THEIRS, False, 600))


def test_last_task_of_a_run_that_ended_here_is_waited_for(clock: Clock, ended: Holder):
    assert waited(claim(clock), clock, Held(ended, True, 600)) >= LAST_TASK_S


def test_node_that_never_lets_go_is_given_up(clock: Clock, ended: Holder):
    assert waited(claim(clock), clock, Held(ended, False, 600)) < LAST_TASK_S + 10


def test_plain_playbook_asks_again_by_itself_ever_more_seldom(clock: Clock):
    one = NodeClaim({}, False, clock, clock.pause)
    ends = []
    while (answer := one.await_step("ofed", None)) is None:
        ends.append(clock.now)
    pauses = [after - before for before, after in pairwise([0.0, *ends])]
    assert (pauses[0], round(max(pauses), 6)) == (5, 300)
    assert len([end for end in ends if end <= 3 * 3600]) <= 50
    assert ends[-1] < MOST_STEP_S + 300
    assert answer == {"failed": True, "msg": "the node still says after 4 hours that it is at work"}


def test_apply_holds_no_fork_and_its_next_round_goes_on_where_the_last_one_was(clock: Clock):
    lock: dict[str, Any] = {"holder": asdict(of_process(os.getpid(), "/runs/3")), "wait_s": 0}
    variables: dict[str, Any] = {"apply_lock": lock, "apply_rounds": True}
    first = NodeClaim(variables, False, clock, clock.pause).await_step("ofed", None)
    assert first is not None
    assert first["running"] is True
    fact = first["ansible_facts"]["rdmaprov_running"]
    assert (fact["role"], fact["next"], clock.now) == ("ofed", 5, 0)
    clock.now = 90
    again = NodeClaim({**variables, **first}, False, clock, clock.pause)
    assert again.facts == {"ansible_facts": {"rdmaprov_running": {}}}
    second = again.await_step("ofed", None)
    assert second is not None
    assert second["ansible_facts"]["rdmaprov_running"]["next"] == 90 + 30
    # A cache of facts has those of another run.
    lock["holder"] = {**lock["holder"], "id": "d" * 32}
    assert not NodeClaim({**variables, **first}, False, clock, clock.pause).facts


def test_round_comes_when_the_first_node_is_due_and_asks_no_other(clock: Clock):
    lock: dict[str, Any] = {"holder": asdict(of_process(os.getpid(), "/runs/3")), "wait_s": 0}
    run: dict[str, Any] = {"apply_lock": lock, "apply_rounds": True}
    slow, quick = (
        NodeClaim(run, False, clock, clock.pause).ask_later("reboot", {"since": since}, 300)
        for since in (-300.0, -30.0)
    )
    other = {"ansible_facts": {"rdmaprov_running": {"run": "d" * 32, "next": 1.0}}}
    known = {"n1": slow, "n2": quick, "n3": {}, "n4": other}
    hosts = types.SimpleNamespace(raw_get=known.get)
    clock.now = next_round({**run, "hostvars": hosts, "ansible_play_batch": list(known)})
    assert clock.now == 10
    claims = [NodeClaim({**run, **(facts or {})}, False, clock) for facts in (slow, quick, {})]
    running = {"changed": False, "running": True}
    assert [each.too_early() for each in claims] == [running, None, None]
    clock.now = 100
    assert claims[0].too_early() is None


def test_step_that_an_ended_run_left_is_waited_for_and_its_lock_replaced(clock, ended):
    one = claim(clock)
    assert one.left_running(Held(ended, True, 600, step=True))
    assert not one.left_running(Held(ended, True, 600))
    assert not one.left_running(Held(THEIRS, True, 600, step=True))
    assert one.await_step("", Held(ended, True, 600, step=True)) is None
    assert one.request()["replace"] == ended.id


def test_holder_is_alive_unless_it_is_certain_that_it_ended(ended: Holder):
    here = of_process(os.getpid(), "")
    assert ended.has_ended()
    assert not here.has_ended()
    assert replace(here, started=here.started + 1).has_ended()  # its number is another's now
    assert not replace(ended, machine="another boot or container").has_ended()


def test_refusal_names_the_run_and_what_to_do():
    said = refusal(Held(THEIRS, False, 61.4))
    assert said.startswith(
        "held by ana on ctl2 (pid 4711) since 2026-01-01 00:00:00 UTC, run /runs/1"
    )
    assert "the lock ends by itself in 61 s" in said
    assert said.endswith("or pass --wait SECONDS")
    assert refusal(Held(None, True, 0)).startswith("held by another run; it changes the node now")


def raw(**changed: Any) -> dict[str, Any]:
    return {"holder": {**asdict(THEIRS), **changed}, "running": False, "left_s": 5}


def test_escapes_of_a_node_are_shown_as_such():
    found = role_answer({"failed": True, "msg": "x", "held": raw(user="\x1b[2J\n\u202eana")})
    assert found["held"].holder.user == r"\x1b[2J \u202eana"


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (None, "does not say who"),
        ({"holder": "ana"}, "does not say who"),
        ({**raw(), "left_s": float("nan")}, "does not say how long"),
        ({**raw(), "left_s": -1}, "does not say how long"),
        ({**raw(), "running": "no"}, "running is neither"),
        (raw(pid=1 << 70), "pid is no number up to"),
        (raw(pid=True), "pid is no number"),
        (raw(started="1"), "started is no number"),
        (raw(user=["ana"]), "user is no text"),
        (raw(run="x" * 5000), "run is no text of at most"),
        (raw(more=1), "with other fields"),
        ({**raw(), "holder": {"id": "x"}}, "with other fields"),
    ],
)
def test_odd_holder_is_no_answer(answer: Any, says: str):
    with pytest.raises(Odd, match=says):
        held_answer(answer)


@pytest.mark.parametrize(("told", "replaces"), [([], True), (None, False), (["the run"], False)])
def test_relay_is_told_which_runs_of_the_controller_live(clock, ended, told, replaces):
    theirs = replace(ended, machine="the controller")
    own = replace(theirs, id="a" * 32, pid=os.getpid(), started=ended.started + 1)
    lock: dict[str, Any] = {"holder": asdict(own), "wait_s": 0.0}
    if told is not None:
        lock["living"] = [f"{ended.pid} {ended.started}" for _ in told]
    one = NodeClaim({"apply_lock": lock}, False, clock, clock.pause)
    assert one.try_again(Held(theirs, False, 600)) is replaces
    assert one.request()["replace"] == (theirs.id if replaces else "")


def test_process_that_lives_is_among_the_living():
    own = of_process(os.getpid(), "")
    assert f"{own.pid} {own.started}" in living()
