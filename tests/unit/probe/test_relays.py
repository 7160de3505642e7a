"""Nodes are asked by a relay as they are from here; a relay that dies or lies loses its nodes."""

import os
import signal
import subprocess
import sys
import threading
from dataclasses import astuple

import pytest
from tests.tables import cases
from tests.unit.helpers.local_node import here
from tests.unit.helpers.waiting import has_ended, until

from rdmaprov.probe.connection import Command
from rdmaprov.probe.errors import NodeError, NodeUnreachable
from rdmaprov.probe.probe import Probe
from rdmaprov.probe.session import Limits
from rdmaprov.probe.ways import FORWARD

NAMES = ("n1", "n2", "n3", "n4")
# What a node may say: much, no UTF-8, on both streams, by its end, from its input, nothing.
COMMANDS = (
    Command("seq 200000; seq 9 >&2", 60),
    Command(r"printf '\377\000\n7 - 1 1\n'; exit 3", 10),
    Command("wc -c; kill -9 $$", 10, b"given", b"shared" * 50_000),
    Command("cat", 10, b"x" * 3_000_000),
    Command("sleep 600", 0.1),
)


def relay(argv=("/bin/sh", "-c"), python=sys.executable, name="r1"):
    return here(name, python, argv)


def answers(*by, **limits):
    """Return what four nodes answer by a relay, and whether each could be asked by `run`."""
    probe = Probe({name: here(name, relays=by) for name in NAMES}, Limits(**limits))
    try:
        found = [probe.run_all(dict.fromkeys(NAMES, command)) for command in COMMANDS]
        found.append({name: probe.run(name, "echo $((6 * 7))") for name in NAMES})
    finally:
        probe.close()
    return [
        {name: str(one) if isinstance(one, NodeError) else one for name, one in each.items()}
        for each in found
    ]


def lost(probe, name="n1", text="echo hi"):
    with pytest.raises(NodeUnreachable) as found:
        probe.run(name, text)
    return str(found.value)


@pytest.fixture
def probing():
    probes = []

    def start(by, *others, acts=False, **limits):
        relays = by if isinstance(by, tuple) else (by,)
        targets = {name: here(name, relays=relays) for name in NAMES}
        targets |= {one.name: one for one in others}
        probes.append(Probe(targets, Limits(**limits), acts=acts))
        return probes[-1]

    yield start
    for probe in probes:
        probe.close()


@pytest.mark.parametrize("limits", [{}, {"open": 2}], ids=["open", "opened again"])
def test_answers_by_a_relay_are_those_from_here(limits):
    assert answers(relay(), **limits) == answers()


def test_relay_has_one_connection_and_its_nodes_ssh(probing, tmp_path):
    script = f'echo x >>{tmp_path}/logins; tee {tmp_path}/sent | eval "$0"'
    probe = probing(relay(("/bin/sh", "-c", script)))
    command = Command(
        "cat >/dev/null; ps -o args= -p $(ps -o ppid= -p $PPID)", 30, b"", b"x" * 10**6
    )
    found = probe.run_all(dict.fromkeys(NAMES, command))
    assert (tmp_path / "logins").read_text() == "x\n"
    assert len({each.out for each in found.values()}) == 1
    assert "-I -S -c" in found["n1"].out
    # The first gets it alone, the second has it kept, and the others are told its number.
    assert 2 * 10**6 < (tmp_path / "sent").stat().st_size < 2.1 * 10**6


def test_relay_that_dies_in_the_middle_loses_its_nodes_and_no_other(probing, tmp_path):
    script = f'echo $$ >>{tmp_path}/pids; eval "exec $0"'
    probe = probing(relay(("/bin/sh", "-c", script)), here("n5"))
    assert probe.run("n1", "echo hi").out == "hi\n"
    os.kill(int((tmp_path / "pids").read_text()), signal.SIGKILL)
    found = probe.run_all({**dict.fromkeys(NAMES, Command("sleep 60", 90)), "n5": Command("", 5)})
    assert found.pop("n5").rc == 0
    for name, error in found.items():
        assert isinstance(error, NodeUnreachable)
        assert str(error).startswith(f"{name}: its relay r1: the connection ended (-9)")


@pytest.mark.parametrize(
    ("script", "says"), cases(__file__, "relay_that_is_refused_is_asked_once_and_named")
)
def test_relay_that_is_refused_is_asked_once_and_named(probing, tmp_path, script, says):
    by = relay(("/bin/sh", "-c", f"echo x >>{tmp_path}/tries; {script}"))
    probe = probing(by)
    for name in NAMES:
        assert lost(probe, name).startswith(f"{name}: its relay r1: ")
        assert says in lost(probe, name)
    assert (tmp_path / "tries").read_text() == "x\n"
    assert probe.taken == []
    probe = probing((by, relay(name="r2")))
    assert [probe.run(name, "echo hi").out for name in NAMES] == ["hi\n"] * 4
    assert (tmp_path / "tries").read_text() == "x\nx\n"
    ((relay1, relay2, why),) = map(astuple, probe.taken)
    assert (relay1, relay2) == ("r1", "r2")
    assert says in why


@pytest.mark.parametrize(
    ("limits", "held"), [({}, 4), ({"open": 2}, 2), ({"acts": True}, 4)], ids=str
)
def test_what_a_dying_relay_left_unanswered_is_asked_by_the_next(probing, tmp_path, limits, held):
    script = f'echo $$ >>{tmp_path}/pids; eval "exec $0"'
    probe = probing((relay(("/bin/sh", "-c", script)), relay(name="r2")), **limits)
    once = f"echo x >>{tmp_path}/once; echo hi"
    for name in NAMES * 2:
        assert probe.run(name, once).out == "hi\n"

    def said(file):
        path = tmp_path / file
        return path.read_text().count("x") if path.exists() else 0

    def kill():
        assert until(lambda: said("asked") == held)
        os.kill(int((tmp_path / "pids").read_text().split()[-1]), signal.SIGKILL)
        (tmp_path / "go").touch()

    killer = threading.Thread(target=kill)
    killer.start()
    ask = f"echo x >>{tmp_path}/asked; until test -e {tmp_path}/go; do sleep 0.05; done; echo hi"
    found = probe.run_all(dict.fromkeys(NAMES, Command(ask, 60)))
    killer.join()
    assert [probe.run(name, once).out for name in NAMES] == ["hi\n"] * 4
    assert said("once") == 4
    if limits.get("acts"):
        assert all(isinstance(one, NodeUnreachable) for one in found.values())
        assert said("asked") == 4
    else:
        assert [one.out for one in found.values()] == ["hi\n"] * 4
        assert said("asked") == 4 + held
        assert [(one.relay, one.by) for one in probe.taken] == [("r1", "r2")]


@pytest.mark.parametrize("limit", [1, 4], ids=["one by one", "together"])
@pytest.mark.parametrize(
    "lie",
    ["7 - 3 0\\nabc", "0 - 3 0\\nabc0 0 0 0\\n0 - 1 0\\na", "0 - 99999999 0\\n", "hello\\n"],
    ids=["of another node", "of one that ended", "without end", "of no form"],
)
def test_relay_that_lies_loses_its_nodes_and_is_not_asked_again(probing, tmp_path, lie, limit):
    liar = tmp_path / "liar"
    liar.write_text(
        f'echo x >>{tmp_path}/tries\nfor last; do :; done\necho "$last"\n'
        f'sleep 0.5\nprintf "{lie}"\nexec cat >/dev/null\n'
    )
    probe = probing((relay(python=f"sh {liar}"), relay(name="r2")), here("n5"), open=limit)
    lost(probe)  # one that is said to have ended is lost by that
    for name in (*NAMES[1:], *NAMES[1:]):
        assert f"{name}: its relay r1: it sent what is no answer" in lost(probe, name)
    assert probe.run("n5", "echo hi").out == "hi\n"
    assert (tmp_path / "tries").read_text() == "x\n"
    assert probe.taken == []


def test_node_that_its_relay_cannot_reach_is_named_alone(probing):
    dead = here("n5", argv=("/none/ssh",), relays=(relay(),))
    probe = probing(dead.relay, dead)
    assert lost(probe, "n5").startswith("n5: the connection ended (127): /none/ssh: No such file")
    assert probe.run("n1", "echo hi").out == "hi\n"


@pytest.mark.parametrize("end", ["input", "signal"])
def test_programs_of_a_relay_end_with_its_controller(end, tmp_path):
    argv = [sys.executable, "-I", "-S", str(FORWARD), "MARK"]
    words = f"sh\0-c\0echo $$ >{tmp_path}/pid; exec sleep 600".encode()
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as relay:
        assert relay.stdin
        relay.stdin.write(b"0 start %d\n" % len(words) + words)
        assert until(lambda: (tmp_path / "pid").is_file() and (tmp_path / "pid").read_text())
        relay.stdin.close() if end == "input" else relay.terminate()
        assert relay.wait(60) == 0
    assert has_ended(tmp_path / "pid")
