"""A machine is paused, saved and given the right time, over QEMU's monitor and the guest agent."""

from __future__ import annotations

import json
import socket
import threading
import time

import pytest

from rdmaprov.errors import RdmaprovError, UnreachableError
from rdmaprov.lab import monitor, snapshot


class Monitor(threading.Thread):
    """QEMU's monitor, for one conversation: greets, then answers each command from a table.

    What is left over of a conversation that was cut comes after the greeting, as QEMU has it.
    """

    def __init__(self, directory, answers, *, left_over=b""):
        super().__init__(daemon=True)
        self.left_over = left_over
        self.answers = {"qmp_capabilities": {}, **answers}
        self.asked = []
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(str(directory / "qmp.sock"))
        self.socket.listen()
        self.start()

    def run(self):
        connection, _ = self.socket.accept()
        lines = connection.makefile("rwb")
        lines.write(b'{"QMP": {}}\n' + self.left_over)
        lines.flush()
        for line in lines:
            request = json.loads(line)
            words = [request["execute"], *request.get("arguments", {}).values()]
            self.asked.append(" ".join(words))
            answer = {"return": self.answers[request["execute"]], "id": request["id"]}
            lines.write(json.dumps(answer).encode() + b"\n")
            lines.flush()


@pytest.mark.parametrize("running", [True, False])
def test_machine_is_paused_unless_it_runs(tmp_path, running):
    Monitor(tmp_path, {"query-status": {"running": running}})
    assert snapshot.is_paused(tmp_path) is not running


def test_machine_that_does_not_answer_is_not_paused(tmp_path):
    assert not snapshot.is_paused(tmp_path)


def test_answer_to_a_command_of_a_killed_save_is_passed_over(tmp_path):
    left_over = b'{"return": "", "id": 1}\n{"error": {"desc": "late"}, "id": 2}\n'
    machine = Monitor(tmp_path, {"cont": {}}, left_over=left_over)
    snapshot.resume("node1", tmp_path)
    assert machine.asked[-1] == "cont"


def test_save_is_qemus_savevm(tmp_path):
    machine = Monitor(tmp_path, {"human-monitor-command": ""})
    snapshot.save("node1", tmp_path, "factory")
    assert machine.asked[-1] == "human-monitor-command savevm factory"


def test_save_that_qemu_refuses_is_an_error(tmp_path):
    Monitor(tmp_path, {"human-monitor-command": "Error: No space left on device\r\n"})
    with pytest.raises(RdmaprovError, match=r"^node1: Error: No space left on device$"):
        snapshot.save("node1", tmp_path, "factory")


def test_machine_that_is_gone_cannot_be_saved(tmp_path):
    with pytest.raises(UnreachableError, match="the virtual machine of node1 does not answer"):
        snapshot.save("node1", tmp_path, "factory")


class Guest:
    """A guest whose clock is set by `date`, each time late by some seconds."""

    def __init__(self, late_s):
        self.late_s = late_s
        self.ahead_s = -500.0
        self.settings = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def run_inside(self, _node, _directory, script, _timeout_s):
        self.settings += 1
        self.ahead_s = float(script.partition("@")[2]) - time.time() - self.late_s
        return monitor.ProgramExit(0, "", "")

    def ask(self, execute):
        assert execute == "guest-get-time"
        return int((time.time() + self.ahead_s) * 1e9)


@pytest.fixture
def guest(monkeypatch):
    """Provide a function that makes the guest that is asked."""

    def make(late_s):
        made = Guest(late_s)
        monkeypatch.setattr(monitor, "run_inside", made.run_inside)
        monkeypatch.setattr(monitor, "agent", lambda *_: made)
        return made

    return make


@pytest.mark.parametrize(("late_s", "settings"), [(0.1, 1), (2.0, 2)])
def test_clock_is_set_until_it_is_right(guest, tmp_path, late_s, settings):
    slow = guest(late_s)
    snapshot.set_clock("node1", tmp_path)
    assert slow.settings == settings
    assert abs(slow.ahead_s) < snapshot.CLOCK_ERROR_S


def test_clock_of_a_slow_guest_is_right_if_it_was_on_the_way(guest, tmp_path, monkeypatch):
    slow = guest(0.0)
    ask = slow.ask

    def ask_slowly(execute):
        time.sleep(2 * snapshot.CLOCK_ERROR_S)
        return ask(execute)

    monkeypatch.setattr(slow, "ask", ask_slowly)
    snapshot.set_clock("node1", tmp_path)
    assert slow.settings == 1


def test_clock_that_cannot_be_set_is_an_error(guest, tmp_path, monkeypatch):
    stuck = guest(0)
    monkeypatch.setattr(monitor, "run_inside", lambda *_: None)
    with pytest.raises(RdmaprovError, match=r"node1: its clock is \+500.0 s off"):
        snapshot.set_clock("node1", tmp_path)
    assert stuck.settings == 0


def test_conversation_ends_with_its_block_even_if_its_peer_is_kept(tmp_path):
    """QEMU takes one connection at a time, and the next one would wait for ever."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(tmp_path / "agent.sock"))
    server.listen()
    with monitor._conversation(tmp_path / "agent.sock", 5) as kept:
        connection, _ = server.accept()
    assert connection.recv(1) == b""
    assert kept
