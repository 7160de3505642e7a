"""A machine is paused and saved, over QEMU's monitor, and what a lab's save and restore leave."""

import json
import socket
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from rdmaprov.errors import RdmaprovError, UnreachableError, UsageError
from rdmaprov.lab import model, monitor, snapshot, virtual_machines
from rdmaprov.lab.accel import Accel
from rdmaprov.lab.cluster import Cluster
from rdmaprov.lab.layout import Layout
from rdmaprov.lab.model import Lab, SavedState
from rdmaprov.lab.virtual_machines import Machines, State


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


NODES = ("node1", "node2")
LAB = Lab(
    suite="bookworm",
    memory_mib=1024,
    accel=Accel.TCG,
    image="image",
    torch="torch",
    site="/site",
    nodes=tuple(model.new_node(name, 40001, 2) for name in NODES),
)
FACTORY = SavedState("factory", "2026-01-02T03:04:05+00:00", NODES)


def test_saved_states_are_kept_with_the_lab(tmp_path):
    lab = LAB.with_saved_state(FACTORY)
    lab.save(tmp_path / "lab.json")
    assert Lab.load(tmp_path / "lab.json") == lab


def test_state_replaces_the_one_of_its_name():
    newer = replace(FACTORY, saved_at="2026-01-02T04:00:00+00:00")
    assert LAB.with_saved_state(FACTORY).with_saved_state(newer).saved == (newer,)


def test_state_goes_with_the_disks_it_lies_in():
    lab = LAB.with_saved_state(FACTORY)
    assert lab.without_saved_states_of(["node2"]).saved_state("factory").nodes == ("node1",)
    assert lab.without_saved_states_of(NODES).saved == ()


@pytest.mark.parametrize("name", ["", "1st", "a b", "../x", "a" * 33, "-x", "état"])
def test_name_that_is_no_identifier_is_refused(name):
    with pytest.raises(UsageError, match="cannot name a saved state"):
        model.check_state_name(name)


@pytest.mark.parametrize(
    ("lab", "hint"),
    [
        (LAB, "To save the nodes as they are now: rdmaprov lab save provisioned"),
        (LAB.with_saved_state(FACTORY), "Its saved states are: factory"),
    ],
)
def test_unknown_state_is_refused_with_those_that_are_known(lab, hint):
    with pytest.raises(UsageError, match="the lab has no saved state 'provisioned'") as caught:
        lab.saved_state("provisioned")
    assert caught.value.hint == hint


class Runs:
    """What stands for the machines: it records what is done to them."""

    def __init__(self):
        self.done = []
        self.broken = None
        self.states = dict.fromkeys(NODES, State.UP)

    def record(self, verb):
        def act(node, _directory, *words):
            self.done.append((verb, node))
            if (verb, node) == self.broken:
                raise RdmaprovError(f"{node}: {verb} {words}", "")

        return act


@pytest.fixture
def runs(monkeypatch):
    made = Runs()
    for verb in ("pause", "save", "delete", "resume", "set_clock"):
        monkeypatch.setattr(snapshot, verb, made.record(verb))
    monkeypatch.setattr(Machines, "state", lambda _, node: made.states[node.name])
    monkeypatch.setattr(Machines, "has_disk", lambda *_: True)
    monkeypatch.setattr(Cluster, "_ensure_images", lambda *_: None)
    return made


@pytest.fixture
def cluster(tmp_path):
    layout = Layout(tmp_path / "lab", tmp_path / "cache")
    for name in NODES:
        layout.node(name).mkdir(parents=True)
    LAB.save(layout.state)
    return Cluster(layout, lambda _: None)


def left_interrupted(cluster):
    return [name for name in NODES if (cluster.layout.node(name) / "interrupted").exists()]


def test_all_nodes_are_paused_before_one_is_saved(cluster, runs):
    assert cluster.save("factory").saved_state("factory").nodes == NODES
    assert runs.done[:2] == [("pause", "node1"), ("pause", "node2")]
    assert set(runs.done[2:4]) == {("save", "node1"), ("save", "node2")}
    assert {("resume", name) for name in NODES} <= set(runs.done)
    assert {("set_clock", name) for name in NODES} <= set(runs.done)
    assert left_interrupted(cluster) == []


def test_save_that_fails_on_a_node_is_no_state_and_the_nodes_run_on(cluster, runs):
    cluster.save("factory")
    runs.done.clear()
    runs.broken = ("save", "node2")
    with pytest.raises(RdmaprovError, match="node2: save"):
        cluster.save("factory")
    assert cluster.load().saved == ()
    assert {("delete", name) for name in NODES} <= set(runs.done)
    assert {("resume", name) for name in NODES} <= set(runs.done)


@pytest.mark.parametrize("state", [State.DOWN, State.BOOTING, State.PAUSED])
def test_node_that_is_not_up_cannot_be_saved(cluster, runs, state, monkeypatch):
    monkeypatch.setattr("rdmaprov.lab.cluster.UP_TIMEOUT_S", 0)
    runs.states["node2"] = state
    with pytest.raises(UnreachableError, match=f"node2 is {state}: only a lab whose nodes are"):
        cluster.save("factory")
    assert runs.done == []


def test_save_that_was_killed_left_no_state_of_an_older_name(cluster, runs, monkeypatch):
    cluster.save("factory")
    monkeypatch.setattr(snapshot, "save", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        cluster.save("factory")
    assert cluster.load().saved == ()
    assert runs.done[-1][0] == "set_clock"


@pytest.mark.usefixtures("runs")
def test_restore_of_a_node_with_a_newer_disk_is_refused(cluster):
    cluster.save("factory")
    cluster.load().without_saved_states_of(["node2"]).save(cluster.layout.state)
    with pytest.raises(
        UsageError, match="the saved state 'factory' of node2 no longer exists"
    ) as caught:
        cluster.restore("factory", [])
    assert caught.value.hint == "Without node2: rdmaprov lab restore factory node1"


@pytest.mark.usefixtures("runs")
def test_restore_marks_the_nodes_before_it_stops_one(cluster, monkeypatch):
    cluster.save("factory")

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(virtual_machines.Machines, "stop", stop)
    with pytest.raises(KeyboardInterrupt):
        cluster.restore("factory", ["node2"])
    assert left_interrupted(cluster) == ["node2"]


def test_damaged_saved_states_are_named(tmp_path):
    path = Path(tmp_path / "lab.json")
    LAB.save(path)
    path.write_text(path.read_text().replace('"saved": []', '"saved": [{"name": 3}]'))
    with pytest.raises(RdmaprovError, match="is damaged"):
        Lab.load(path)
