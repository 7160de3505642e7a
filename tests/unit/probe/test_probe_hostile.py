"""A node that answers as no agent does, or does not end, holds up nobody."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
from tests.unit.helpers.local_node import here

from rdmaprov.probe.errors import NodeUnreachable
from rdmaprov.probe.probe import Probe
from rdmaprov.probe.session import Limits

# What is no answer of the agent's, after a mark that is right. Each hung the run, or took memory.
LIES = {
    "status that is no number": r"0 abc 0 0\n",
    "number that nobody asked": r"7 0 0 0\n",
    "answered twice": r"0 0 0 0\n0 0 0 0\n",
    "5,000 digits": r"0 0 $(printf %05000d 9) 0\n",
    "negative length": r"0 0 -1 0\n",
    "more than the agent sends": r"0 0 99999999 0\n",
    "a word too many": r"0 0 0 0 0\n",
    "no line at all": r"$(head -c 3000000 /dev/zero | tr '\0' x)",
    "no UTF-8": r"\377\376 0 0 0\n",
    "other digits": r"\331\240 0 0 0\n",
}


def ask_again_and_again(probe, command):
    for _ in range(20):
        probe.run("n1", command, fresh=True)
        time.sleep(0.05)


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_node_that_does_not_answer_as_the_agent_is_unreachable(lie, tmp_path):
    """The last word of what starts it is its mark."""
    liar = tmp_path / "python3"
    liar.write_text(
        'for mark; do :; done; printf "\\n$mark\\n"; head -c 1 >/dev/null; sleep 0.2\n'
        f'printf "{lie}"; exec sleep 600\n'
    )
    nodes = {"n1": here(python=f"sh {liar}"), "n2": here("n2")}
    probe = Probe(nodes, Limits(command_s=5))
    began = time.monotonic()
    with pytest.raises(NodeUnreachable, match="n1: unexpected output on the connection"):
        ask_again_and_again(probe, "true")
    assert time.monotonic() - began < 5
    assert probe.run("n2", "echo hi").out == "hi\n"
    probe.close()


def test_banner_without_a_line_s_end_is_no_agent(tmp_path):
    """The reader refuses such a line with a ValueError, which nobody waited for."""
    liar = tmp_path / "python3"
    liar.write_text("head -c 1000000 /dev/zero | tr '\\0' x; exec sleep 600\n")
    probe = Probe({"n1": here(python=f"sh {liar}"), "n2": here("n2")}, Limits(command_s=5))
    with pytest.raises(NodeUnreachable, match="n1: unexpected output on the connection"):
        probe.run("n1", "true")
    assert probe.run("n2", "echo hi").out == "hi\n"
    probe.close()


def test_node_that_talks_on_is_hung_up_on(tmp_path):
    """It cost a run its processor until the end."""
    liar, told = tmp_path / "python3", tmp_path / "told"
    liar.write_text(
        'for mark; do :; done; printf "\n$mark\n"; head -c 1 >/dev/null; sleep 0.2\n'
        f"yes 0 0 0 0; echo $? > {told}; exec sleep 600\n"
    )
    probe = Probe({"n1": here(python=f"sh {liar}")}, Limits(command_s=5))
    with pytest.raises(NodeUnreachable, match="n1: unexpected output on the connection"):
        ask_again_and_again(probe, "true")
    end = time.monotonic() + 10
    while not told.exists() or not told.read_text():
        assert time.monotonic() < end, "the run still reads what it says"
        time.sleep(0.05)
    probe.close()


def test_node_that_never_stops_talking_is_unreachable(monkeypatch):
    monkeypatch.setattr("rdmaprov.probe.output._MOST_NODE_BYTES", 1_000_000)
    probe = Probe({"n1": here()})
    with pytest.raises(NodeUnreachable, match="n1: unexpected output on the connection"):
        ask_again_and_again(probe, "head -c 100000 /dev/zero")
    probe.close()


def test_connection_that_does_not_end_is_killed(monkeypatch):
    monkeypatch.setattr("rdmaprov.probe.connection._END_S", 0.2)
    stubborn = "trap '' TERM; eval \"$0\"; while :; do sleep 1; done"
    probe = Probe({"n1": here(argv=("/bin/sh", "-c", stubborn))})
    assert probe.run("n1", "echo hi").out == "hi\n"
    began = time.monotonic()
    probe.close()
    assert time.monotonic() - began < 5


def test_interrupt_while_the_connections_thread_starts_leaves_none(monkeypatch):
    probe = Probe({"n1": here()})
    start = probe._thread.start

    def interrupted():
        threading.Timer(0.2, start).start()
        raise KeyboardInterrupt

    monkeypatch.setattr(probe._thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        probe._submit(asyncio.sleep(0))
    probe.close()
    assert not probe._thread.is_alive()
    assert probe._loop.is_closed()
