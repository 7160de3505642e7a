"""A node that is silent at a limit is waited for once more; one that hangs costs that once."""

import asyncio
import os
import shlex
import signal
import socket
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import pytest
from ansible.errors import AnsibleConnectionFailure
from plugins.plugin_utils.patience import ask_twice
from tests.unit.helpers.local_node import here
from tests.unit.helpers.supervised import Kept, marked, supervised_units
from tests.unit.helpers.waiting import until

from rdmaprov.acceptance.paths import session as path_session
from rdmaprov.acceptance.ranks import launch
from rdmaprov.acceptance.ranks import request as job_request
from rdmaprov.acceptance.ranks import run as job_run
from rdmaprov.probe import session
from rdmaprov.probe.agent import Agent
from rdmaprov.probe.connection import Command
from rdmaprov.probe.errors import NoAnswer, NodeUnreachable
from rdmaprov.probe.probe import Probe
from rdmaprov.probe.session import Limits
from rdmaprov.replace import host_key
from rdmaprov.replace.host_key import HostKeyError
from rdmaprov.watch import collect

pytestmark = pytest.mark.waits

SLOW = "sleep 1.7; echo done"  # at a limit of 1.5 s
TIMED_OUT = "echo 'ssh: connect to host n1 port 22: Connection timed out' >&2; exit 255"


@pytest.fixture
def open_probe():
    probes = []

    def start(*targets, **limits):
        probes.append(Probe({each.name: each for each in targets}, Limits(**limits)))
        return probes[-1]

    yield start
    for probe in probes:
        probe.close()


@pytest.fixture
def at_limit(monkeypatch):
    """Provide what is called each time that a node was silent at a limit."""
    wait = asyncio.wait
    calls: list[Callable[[], object]] = []

    async def hear(futures, timeout=None):
        done, rest = await wait(futures, timeout=timeout)
        for call in calls if not done else ():
            call()
        return done, rest

    monkeypatch.setattr("rdmaprov.probe.patience.asyncio.wait", hear)
    return calls


def why(probe, text, limit_s):
    with pytest.raises((NoAnswer, NodeUnreachable)) as found:
        probe.run("n1", text, fresh=True, limit_s=limit_s)
    return found.value.message


def test_command_that_is_slow_is_answered_each_time_and_runs_once(open_probe, tmp_path):
    probe = open_probe(here())
    for number in (1, 2):
        slow = f"echo x >>{tmp_path}/runs; {SLOW}"
        assert probe.run("n1", slow, fresh=True, limit_s=1.5).out == "done\n"
        assert (tmp_path / "runs").read_text() == number * "x\n"


def test_commands_that_hang_cost_one_limit_more_together(open_probe):
    probe = open_probe(here(), here("n2"))
    said = [why(probe, f"sleep 60{number}", 0.3) for number in range(4)]
    assert said[0] == "n1: no answer in 0.3 s, nor in 0.3 s more: sleep 600"
    assert said[1:] == [f"n1: no answer in 0.3 s: sleep 60{number}" for number in (1, 2, 3)]
    assert probe.run("n1", "echo alive").out == "alive\n"
    slow = probe.run_all({"n2": Command(SLOW, 1.5)})["n2"]  # it has its own
    assert getattr(slow, "out", slow) == "done\n"


def test_patience_lasts_over_connections(open_probe):
    """Where a fleet has more nodes than connections, each question has a connection of its own."""
    probe = open_probe(here(), here("n2"), open=1)
    assert "nor in" in why(probe, "sleep 600", 0.3)
    assert why(probe, "sleep 601", 0.3) == "n1: no answer in 0.3 s: sleep 601"


def late(limit_s, is_patient=True):
    return SimpleNamespace(limit=limit_s, more=0, is_patient=is_patient, end=0.0)


def test_commands_that_are_late_at_the_same_time_share_one_limit():
    agent, first, second, third = Agent(), late(5), late(20), late(5)
    assert not agent.extend(late(5, is_patient=False), 10)
    assert agent.extend(first, 10)
    assert agent.extend(second, 13)
    assert (first.end, second.end, second.more) == (15, 15, 2)
    assert not agent.extend(first, 15)
    assert not agent.extend(third, 15)


def hanging(place, name="n1"):
    """Return a node that stops its agent, and the command by which it does."""
    script = f'export HANG={place}; eval "$0"'
    hang = 'if [ -n "$HANG" ]; then echo $PPID >$HANG; kill -STOP $PPID; fi; echo done'
    return here(name, argv=("/bin/sh", "-c", script)), hang


def signal_agent(place, number):
    assert until(lambda: place.is_file() and place.read_text().strip())
    os.kill(int(place.read_text()), number)


def test_node_that_was_stopped_answers_within_one_limit_more(
    open_probe, monkeypatch, at_limit, tmp_path
):
    monkeypatch.setattr(session, "_GRACE_S", -19.5)
    node, hang = hanging(tmp_path / "agent")
    probe = open_probe(node)
    probe.run("n1", "true")
    at_limit.append(lambda: signal_agent(tmp_path / "agent", signal.SIGCONT))
    for _ in range(2):
        assert probe.run("n1", hang, fresh=True, limit_s=20).out == "done\n"


def test_node_that_hangs_is_named_at_its_limit_and_one_more(
    open_probe, monkeypatch, at_limit, tmp_path
):
    monkeypatch.setattr(session, "_GRACE_S", 0)
    node, hang = hanging(tmp_path / "agent")
    probe = open_probe(node, here("n2"))
    silences = []
    at_limit.append(lambda: silences.append("n1"))
    answers = probe.run_all({"n1": Command(hang, 0.5), "n2": Command(hang, 0.5)})
    assert getattr(answers["n2"], "out", "") == "done\n"
    for _ in range(3):  # whatever is asked later, it is not waited for again
        assert str(answers["n1"]).startswith("n1: no answer in 0.5 s, nor in 0.5 s more: if [")
        answers = probe.run_all({"n1": Command("true", 0.5)})
    assert silences == ["n1", "n1"]
    signal_agent(tmp_path / "agent", signal.SIGKILL)


def test_questions_that_are_fetched_at_once_are_waited_for_once_more(
    open_probe, monkeypatch, tmp_path
):
    monkeypatch.setattr(session, "_GRACE_S", 0)
    node, hang = hanging(tmp_path / "agent")
    probe = open_probe(here("n2"), node, command_s=0.2, node_s=0.5)
    probe.run("n2", hang)
    with pytest.raises(NodeUnreachable, match=r"1 of 1 .* in 0.5 s, nor in 0.5 s more"):
        probe.run("n1", hang)
    signal_agent(tmp_path / "agent", signal.SIGKILL)


def ssh_that(place, *scripts):
    """Return a node whose ssh does as each script says, in turn, and then as the last."""
    count = f"echo n1 >>{place}; n=$(grep -c n1 {place})"
    cases = " ".join(f"{number}) {script};;" for number, script in enumerate(scripts[:-1], 1))
    return here(argv=("/bin/sh", "-c", f"{count}; case $n in {cases} *) {scripts[-1]};; esac"))


def test_connection_that_is_slow_is_one_connection(open_probe, monkeypatch, tmp_path):
    """As where sshd, sudo or Python need long on a node that does other work."""
    monkeypatch.setattr("rdmaprov.probe.connection._START_S", -8.5)
    probe = open_probe(ssh_that(tmp_path / "tries", 'sleep 1.7; eval "$0"'))
    assert probe.run("n1", "echo hi").out == "hi\n"
    assert (tmp_path / "tries").read_text() == "n1\n"


def test_node_that_ssh_got_no_answer_from_is_connected_to_once_more(open_probe, tmp_path):
    probe = open_probe(ssh_that(tmp_path / "tries", TIMED_OUT, 'eval "$0"'))
    assert probe.run("n1", "echo hi").out == "hi\n"
    assert (tmp_path / "tries").read_text() == "n1\nn1\n"
    assert "nor in" in why(probe, "sleep 600", 0.3)  # it was slow, so it is waited for again


def test_second_try_to_connect_comes_behind_the_first_of_others(open_probe, tmp_path):
    tries = tmp_path / "tries"
    other = here("n2", argv=("/bin/sh", "-c", f'echo n2 >>{tries}; eval "$0"'))
    probe = open_probe(ssh_that(tries, TIMED_OUT), other, opening=1)
    assert why(probe, "true", 5) == "n1: ssh: no answer from  in 10 s, nor in 10 s more"
    assert probe.run("n2", "echo hi").out == "hi\n"
    assert why(probe, "true", 5)
    assert tries.read_text().split() == ["n1", "n2", "n1"]


def test_answer_of_ssh_is_no_silence(open_probe, tmp_path):
    refused = "echo 'ssh: connect to host n1 port 22: Connection refused' >&2; exit 255"
    probe = open_probe(ssh_that(tmp_path / "tries", refused))
    assert why(probe, "true", 5) == "n1: ssh: connection refused"
    assert (tmp_path / "tries").read_text() == "n1\n"


@pytest.fixture
def stopped_sshd():
    """Provide what ssh meets at a node whose sshd is stopped: the kernel accepts, nobody speaks."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        argv = ("ssh", "-T", "-F", "none", "-o", "BatchMode=yes", "-o", "ConnectTimeout=1")
        target = here(argv=(*argv, "-p", str(listener.getsockname()[1]), "127.0.0.1"), connect_s=1)
        yield SimpleNamespace(target=target, listener=listener)


def connections(listener):
    found = []
    while True:
        try:
            found.append(listener.accept()[0])
        except BlockingIOError:
            for each in found:
                each.close()
            return len(found)


def test_node_whose_sshd_is_stopped_is_named_after_two_limits(open_probe, stopped_sshd):
    probe = open_probe(stopped_sshd.target)
    for number in range(3):
        waited = "in 1 s, nor in 1 s more"
        assert why(probe, f"echo {number}", 5) == f"n1: ssh: no answer from  {waited}"
    assert connections(stopped_sshd.listener) == 2


def test_survey_whose_node_ansible_asks_again_waits_for_no_more(stopped_sshd):
    probe = Probe({"n1": stopped_sshd.target}, is_patient=False)
    assert why(probe, "true", 5) == "n1: ssh: no answer from  in 1 s"
    probe.close()
    assert connections(stopped_sshd.listener) == 1


def test_watch_connects_to_a_node_whose_sshd_is_stopped_once_more(stopped_sshd):
    async def connect():
        return await collect.Connector({"n1": stopped_sshd.target})("n1")

    with pytest.raises(NodeUnreachable, match="in 1 s, nor in 1 s more"):
        asyncio.run(connect())
    assert connections(stopped_sshd.listener) == 2


def test_host_key_of_a_node_whose_sshd_is_stopped_is_asked_for_twice(stopped_sshd):
    target = replace(stopped_sshd.target, address="127.0.0.1")
    with pytest.raises(HostKeyError, match=r"no answer from 127.0.0.1 in 1 s, nor in 1 s more"):
        host_key.look(target)
    assert connections(stopped_sshd.listener) == 2


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        (["ssh: connect to host n1 port 22: Connection timed out"], 2),
        (["Timeout (12s) waiting for privilege escalation prompt: "], 2),
        ([], 1),
        (["ssh: connect to host n1 port 22: Connection refused"] * 2, 1),
        (["Connection timed out during banner exchange"] * 2, 2),
    ],
)
def test_ansible_asks_a_silent_node_once_more(said, asked):
    left, count = list(said), []

    def ask():
        count.append(1)
        if left:
            raise AnsibleConnectionFailure(left.pop(0))
        return {"rc": 0}

    connection = SimpleNamespace(get_option=lambda name: {"timeout": 10}[name])
    if len(said) < 2:
        assert ask_twice(connection, ask) == {"rc": 0}
    else:
        with pytest.raises(AnsibleConnectionFailure) as found:
            ask_twice(connection, ask)
        assert ("(no answer in 10 s, nor in 10 s more)" in str(found.value)) is (asked == 2)
    assert len(count) == asked


def test_ranks_of_a_slow_node_are_started_once(open_probe, monkeypatch, tmp_path):
    """What acts is waited for, and not done again."""
    units = supervised_units("keeper", monkeypatch, tmp_path)
    slow = (
        f'echo x >>{tmp_path}/starts; sleep 1.7; exec "$(PATH={os.environ["PATH"]} which python3)"'
    )
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin/python3"
    python.write_text(f'#!/bin/sh\n{slow} "$@"\n')
    python.chmod(0o755)
    script = f'export PATH={shlex.quote(str(tmp_path / "bin"))}:$PATH; eval "$0"'
    kept = Kept(open_probe(here("n0", argv=("/bin/sh", "-c", script))), "sleep 600", start_s=1.5)
    assert (tmp_path / "starts").read_text() == "x\n"
    assert until(lambda: marked(kept.mark))
    assert kept.stop() == {"left": []}
    assert not units.exists()


def test_other_nodes_keep_their_ranks_while_a_silent_one_is_waited_for():
    for start_s in (launch.START_S, path_session._START_S):
        assert 2 * start_s + session._GRACE_S <= job_request.STARTING_S
    assert 2 * job_run.POLL_S + session._GRACE_S < job_request.LEASE_S
