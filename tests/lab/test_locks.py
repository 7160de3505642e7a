"""Two runs at once: one site, or one node from two controllers; and a run that was killed."""

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.lab.fleet import Fleet
from tests.site_runs import WAIT_S

from rdmaprov.exit_codes import ExitCode

pytestmark = pytest.mark.lab

NODE = "node1"
TOUCHES = (NODE,)
WORDS = ("--roles", "mtu", "--limit", NODE)
RECORD = "/run/rdmaprov/lock.json"
# What a run that was cut might leave: files that were not renamed, and the record of its lock.
HALF_WRITTEN = "find /etc /run/rdmaprov -name '.rdmaprov-*'"
LEFT = f"{HALF_WRITTEN}; cat {RECORD} 2> /dev/null; true"


def record(lab):
    return lab.run(NODE, f"cat {RECORD} 2> /dev/null; true").strip()


def start_until_held(lab, fleet):
    """Return an apply that holds the node."""
    process = fleet.start("apply", *WORDS)
    deadline = time.monotonic() + lab.limit_s(WAIT_S)
    while not record(lab):
        assert process.poll() is None, process.stdout.read()
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return process


def processes_in(directory: Path) -> list[int]:
    """Return the processes that run in a directory, without connections that other runs share."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            is_shared = b"[mux]" in process.joinpath("cmdline").read_bytes()
            is_here = process.joinpath("cwd").readlink() == directory
        except OSError:
            continue  # it ended
        if is_here and not is_shared:
            found.append(int(process.name))
    return found


@contextmanager
def stopped(directory: Path) -> Iterator[None]:
    """Stop all processes of a run for a while; what runs on the node ends by itself."""
    processes = processes_in(directory.resolve())
    for process in processes:
        os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            os.kill(process, signal.SIGCONT)


def must_end_well(fleet, process):
    code, said = fleet.end(process)
    assert code == ExitCode.OK, said


def test_second_run_on_a_site_is_refused_and_the_first_one_ends_well(lab, tmp_path):
    fleet = Fleet(lab, tmp_path)
    first = start_until_held(lab, fleet)
    with stopped(tmp_path):
        for verb in ("apply", "accept"):
            code, said = fleet.run(verb)
            assert code == ExitCode.UNKNOWN, said
            assert f"error: {fleet.site} is held by" in said
            assert f"(pid {first.pid})" in said
    must_end_well(fleet, first)
    assert lab.run(NODE, LEFT) == ""


def test_node_of_another_controller_s_run_is_not_changed(lab, tmp_path):
    """Two copies of a site are what two controllers have: only the node knows of both."""
    ours, theirs = Fleet(lab, tmp_path / "ours"), Fleet(lab, tmp_path / "theirs")
    first = start_until_held(lab, theirs)
    with stopped(theirs.directory):
        held = json.loads(record(lab))["holder"]
        code, said = ours.run("apply", "--roles", "limits", "--limit", NODE)
        assert code == ExitCode.FAILED, said
        assert f"held by {held['user']} on {held['host']} (pid {first.pid}) since" in said
        assert f"run {held['run']}" in said
        assert ours.results()["nodes"][NODE]["changes"] == {}
    must_end_well(theirs, first)
    assert lab.run(NODE, LEFT) == ""


def test_run_that_was_killed_holds_nothing_and_leaves_nothing_half_written(lab, tmp_path):
    """Its record may stay if the next run finds nothing to change: see docs/security.md."""
    fleet = Fleet(lab, tmp_path)
    killed = start_until_held(lab, fleet)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    fleet.apply(*WORDS)
    assert lab.run(NODE, HALF_WRITTEN) == ""
    assert fleet.run("plan", *WORDS)[0] == ExitCode.OK
