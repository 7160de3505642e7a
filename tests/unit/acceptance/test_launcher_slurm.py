"""Nodes by Slurm: real daemons, allocations and steps; nothing is kept that was not given back."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.helpers.accept_runs import job
from tests.unit.helpers.waiting import until

from rdmaprov.acceptance.ask import shapes
from rdmaprov.acceptance.ask.nodes import ask_nodes, program_command
from rdmaprov.acceptance.launchers.allocation import (
    SlurmNodes,
    allocate,
    allocation_command,
    step_target,
    use_job,
)
from rdmaprov.acceptance.ranks.launch import Launcher
from rdmaprov.errors import UnreachableError
from rdmaprov.marked import marked_processes
from rdmaprov.probe.connection import Answer, Command
from rdmaprov.probe.errors import NodeError
from rdmaprov.probe.probe import Probe

pytestmark = pytest.mark.waits

NAMES = ("n0", "n1", "n2")


@pytest.fixture
def slurm(cluster, monkeypatch):
    for name in ("SLURM_CONF", "PATH"):
        monkeypatch.setenv(name, cluster.environment[name])
    yield cluster
    assert until(lambda: cluster.jobs() == "")
    assert cluster.make_idle()


@pytest.fixture
def nodes(slurm):
    with allocate(NAMES, 0, None, ()) as allocation:
        probe = Probe({name: step_target(allocation.job, name, "", ()) for name in NAMES})
        yield SlurmNodes(probe, allocation)
        probe.close()
    assert until(lambda: slurm.jobs() == "")


def everywhere(text, given=b""):
    return {name: Command(text, 20, given) for name in NAMES}


def test_each_node_answers_for_itself(nodes):
    found = nodes.run_all(everywhere('printf %s "$SLURMD_NODENAME"'))
    assert {name: answer.out for name, answer in found.items()} == {n: n for n in NAMES}


def test_an_answer_of_any_bytes_arrives_as_it_is(nodes):
    # Line ends, what a terminal reads as a command, what is no text, no newline at the end.
    given = bytes(range(256)) * 2000 + b"\r\n\x03\x04\x1a end"
    for answer in nodes.run_all(everywhere("cat", given)).values():
        assert answer.out.encode("utf-8", "surrogateescape") == given


def test_nothing_of_the_callers_environment_gets_there(nodes, monkeypatch):
    monkeypatch.setenv("NCCL_ALGO", "Tree")
    for answer in nodes.run_all(everywhere("env")).values():
        assert "NCCL_ALGO" not in answer.out


def test_preflight_of_a_node_comes_by_its_step(nodes):
    request = {"verb": "preflight", "python": sys.executable, "rails": []}
    commands = dict.fromkeys(NAMES, program_command("reader", request, 60))
    found = ask_nodes(nodes, commands, lambda _: shapes.preflight(0))
    assert all(isinstance(answer, dict) for answer in found.values()), found


RANK = r"""#!/bin/sh
rank=$(sed -n 's/.*"first": \([0-9]*\).*/\1/p' "$2")
echo '{"rank": '$rank', "event": "phase", "phase": "sweep"}'
"""


def test_a_job_of_ranks_runs_by_steps_and_leaves_nothing(nodes, tmp_path):
    python = tmp_path / "python"
    python.write_text(RANK + "setsid sleep 600 & exit 0\n")
    python.chmod(0o755)
    (ran,) = Launcher(nodes).run([job(2, pythons=dict.fromkeys(NAMES[:2], str(python)))])
    assert ran.good
    assert {event["rank"] for event in ran.events_of("phase")} == {0, 1}
    assert [node.left for node in ran.nodes.values()] == [(), ()]
    assert not any(Path(node.directory).exists() for node in ran.nodes.values())
    assert marked_processes("RDMAPROV_ACCEPTANCE=") == []


def test_an_allocation_that_ends_is_no_fault_of_its_nodes(nodes, slurm):
    assert all(isinstance(answer, Answer) for answer in nodes.run_all(everywhere("true")).values())
    slurm.ask("scancel", slurm.jobs())
    with pytest.raises(UnreachableError, match="Slurm ended the job") as caught:
        nodes.run_all(everywhere("sleep 20"))
    assert not isinstance(caught.value, NodeError)


def refused(*options, names=NAMES):
    with (
        pytest.raises(UnreachableError) as caught,
        allocate(names, 0, None, ("--immediate=2", *options)),
    ):
        pytest.fail("there is an allocation")
    assert "\n" not in caught.value.message
    return caught.value.message


def test_a_drained_node_is_named_with_its_reason(slurm):
    slurm.ask("scontrol", "update", "nodename=n1", "state=drain", "reason=bad cable")
    assert refused() == (
        "Slurm gives no allocation of n[0-2]: the nodes were not free in time;"
        " n1: drained (bad cable)"
    )


def test_a_node_that_others_use_is_named(slurm):
    with allocate(("n2",), 0, None, ()):
        assert refused().endswith("the nodes were not free in time; n2: allocated")
    assert until(lambda: slurm.jobs() == "")


@pytest.mark.usefixtures("slurm")
def test_a_node_that_slurm_does_not_know_is_named():
    said = refused(names=("n0", "gpu7"))
    old = "Invalid node name specified; gpu7: not known to Slurm"
    assert old in said or "does not have gpu7, but n[0-1]" in said


@pytest.mark.usefixtures("slurm")
def test_an_unknown_partition_is_said_in_slurms_words():
    assert "Invalid partition name specified" in refused("--partition=none")


def test_a_run_that_fails_gives_its_nodes_back(slurm):
    with contextlib.suppress(KeyboardInterrupt), allocate(NAMES, 0, None, ()) as allocation:
        assert slurm.jobs() == allocation.job
        raise KeyboardInterrupt
    assert until(lambda: slurm.jobs() == "")


def test_a_controller_that_is_killed_gives_its_nodes_back(slurm):
    words = allocation_command(NAMES, 0, None, ())
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import subprocess, sys, time\n"
            "each = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, start_new_session=True)\n"
            "time.sleep(600)",
            *words,
        ],
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline().decode().strip() == slurm.jobs()
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert until(lambda: slurm.jobs() == "")


def test_a_users_own_job_is_used_and_stays(slurm):
    with allocate(NAMES[:2], 0, None, ()) as mine:
        with use_job(NAMES[:2], mine.job) as used:
            assert used.job == mine.job
        assert slurm.jobs() == mine.job
        with (
            pytest.raises(UnreachableError, match=r"does not have n2, but n\[0-1\]"),
            use_job(NAMES, mine.job),
        ):
            pytest.fail("it has no such node")
    with pytest.raises(UnreachableError), use_job(NAMES, mine.job):
        pytest.fail("it has ended")


@pytest.mark.usefixtures("slurm")
def test_the_step_of_another_job_has_no_say(monkeypatch):
    """As in a shell of salloc's: its variables would be options of ours."""
    monkeypatch.setenv("SLURM_MEM_PER_CPU", "10")
    monkeypatch.setenv("SALLOC_PARTITION", "none")
    with allocate(NAMES, 0, None, ()) as allocation:
        probe = Probe({"n0": step_target(allocation.job, "n0", "", ())})
        assert probe.run("n0", "echo here").out == "here\n"
        probe.close()
