"""One run at a time changes a node: races, leases, dead holders, and what a record may say."""

import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from plugins.module_utils.lock import LEASE_S, LOCK, RECORD, Held, NodeLock, release
from tests.roles.fake import FakeMachine
from tests.tables import cases

ROOT = Path(__file__).resolve().parents[2]
# Takes the lock, says so, and holds it until its standard input ends.
HOLDER = cases(__file__, "holder")


def given(run: str, keep: bool = True, replace: str = "") -> dict[str, Any]:
    return {"holder": {"id": run, "user": "ops"}, "keep": keep, "replace": replace}


def take(machine: FakeMachine, *words: Any) -> None:
    with NodeLock(machine, given(*words)):
        pass


def lease(machine: FakeMachine, run: str, left_s: float) -> None:
    """Have a run hold the node, between two modules, for some time from now."""
    until = time.clock_gettime(time.CLOCK_BOOTTIME) + left_s
    machine.put(RECORD, json.dumps({"holder": {"id": run}, "until": until}))


def test_run_holds_the_node_from_one_module_to_the_next(machine: FakeMachine):
    take(machine, "ours")
    with pytest.raises(Held) as refused:
        take(machine, "theirs")
    held = refused.value.held
    assert held["holder"] == {"id": "ours", "user": "ops"}
    assert held["running"] is False
    assert 0 < held["left_s"] <= LEASE_S
    take(machine, "ours")


def test_run_that_keeps_nothing_holds_the_node_for_a_module(machine: FakeMachine):
    with NodeLock(machine, given("ours", keep=False)), pytest.raises(Held) as refused:
        take(machine, "theirs")
    assert refused.value.held["running"] is True
    assert refused.value.held["holder"]["id"] == "ours"
    take(machine, "theirs")


def test_module_that_fails_releases_the_node(machine: FakeMachine):
    with pytest.raises(ValueError, match="no driver"), NodeLock(machine, given("ours")):
        raise ValueError("no driver")
    take(machine, "theirs")


def test_module_may_keep_what_its_run_would_release(machine: FakeMachine):
    """It does so until a change to the management path is confirmed or reverted."""
    with NodeLock(machine, given("ours", keep=False)) as lock:
        lock.keep = True
    with pytest.raises(Held):
        take(machine, "theirs")


def test_nothing_is_locked_in_check_mode(machine: FakeMachine):
    with NodeLock(machine, {}):
        assert not machine.exists(LOCK)
    release(machine, {})
    take(machine, "ours")
    with NodeLock(machine, {}):
        pass
    assert machine.exists(RECORD)


def test_release_is_for_the_own_run(machine: FakeMachine):
    take(machine, "ours")
    release(machine, given("theirs"))
    with pytest.raises(Held):
        take(machine, "theirs")
    release(machine, given("ours"))
    take(machine, "theirs")


def test_reboot_releases_the_node(machine: FakeMachine):
    take(machine, "ours")
    machine.remove(RECORD)
    machine.remove(LOCK)
    take(machine, "ours")
    with pytest.raises(Held):
        take(machine, "theirs")


def test_lease_that_ended_holds_nobody_up(machine: FakeMachine):
    lease(machine, "ours", 1)
    with pytest.raises(Held):
        take(machine, "theirs")
    lease(machine, "ours", -1)
    take(machine, "theirs")


def test_run_that_is_known_to_have_ended_is_replaced_by_name(machine: FakeMachine):
    take(machine, "ended")
    with pytest.raises(Held):
        take(machine, "ours", True, "another")
    take(machine, "ours", True, "ended")
    with pytest.raises(Held) as refused:
        take(machine, "theirs", True, "ended")
    assert refused.value.held["holder"]["id"] == "ours"


@pytest.mark.parametrize(
    "record",
    [
        *cases(__file__, "record_that_is_none_holds_nobody_up"),
        *("\0" * 100, "[" * 10_000, '{"holder": {"id": "x"}, "until": ' + "9" * 400 + "}"),
    ],
)
def test_record_that_is_none_holds_nobody_up(machine: FakeMachine, record: str):
    machine.put(RECORD, record)
    take(machine, "ours")
    with pytest.raises(Held):
        take(machine, "theirs")


def race(machine: FakeMachine, *requests: dict[str, Any]) -> list[str]:
    winners = []
    begin = threading.Barrier(len(requests))

    def run(request: dict[str, Any]) -> None:
        begin.wait()
        try:
            with NodeLock(machine, request):
                pass
        except Held:
            return
        winners.append(request["holder"]["id"])

    threads = [threading.Thread(target=run, args=(request,)) for request in requests]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return winners


@pytest.mark.parametrize(
    ("held", "left_s", "replace"), [("", 0, ""), ("stale", -1, ""), ("ended", LEASE_S, "ended")]
)
def test_race_for_a_free_node_or_a_lease_that_is_over_has_one_winner(
    machine: FakeMachine, held: str, left_s: float, replace: str
):
    requests = [given(run, replace=replace) for run in ("ours", "theirs")]
    for _ in range(100):
        machine.remove(RECORD)
        if held:
            lease(machine, held, left_s)
        assert len(race(machine, *requests)) == 1


def test_module_that_is_killed_holds_the_node_no_longer_than_its_lease(machine: FakeMachine):
    Path(machine.root).mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, machine.root],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        with pytest.raises(Held) as running:
            take(machine, "ours", True, "theirs")
        process.kill()
    with pytest.raises(Held) as leased:
        take(machine, "ours")
    assert (running.value.held["running"], leased.value.held["running"]) == (True, False)
    take(machine, "ours", True, "theirs")
