"""Nodes that are asked each second, and the program on them: answers, hangs, ends, Ctrl-C."""

import ast
import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest
from tests.madeup.shape import FleetShape
from tests.madeup.site import site_nodes
from tests.madeup.watched import MadeUpLink, MadeUpWatch
from tests.unit.helpers.local_node import here
from tests.unit.helpers.waiting import until

from rdmaprov import node
from rdmaprov.errors import UsageError
from rdmaprov.probe.connection import Command, open_connection
from rdmaprov.probe.errors import NoAnswer, NodeUnreachable
from rdmaprov.probe.link import LocalLink
from rdmaprov.probe.script import node_script
from rdmaprov.watch import collect
from rdmaprov.watch.answers import parse_names, parse_steps
from rdmaprov.watch.collect import PROGRAM, Collector
from rdmaprov.watch.fleet import WatchedFleet
from rdmaprov.watch.judge import kernel_faults
from rdmaprov.watch.node_account import NodeAccount
from rdmaprov.watch.verdict import line

SHAPE = FleetShape(2, gpus=4, rails=4, per_leaf=2)


class Fleet:
    def __init__(self) -> None:
        self.watch = MadeUpWatch(site_nodes(SHAPE))
        self.accounts = {node.name: NodeAccount(node) for node in self.watch.nodes}
        self.connects: list[str] = []
        self.refused: set[str] = set()
        self.collector: Collector | None = None

    async def connect(self, name):
        self.connects.append(name)
        if name in self.refused:
            raise NodeUnreachable(f"{name}: ssh rejects the user", "Try: ssh")
        return MadeUpLink(self.watch, SHAPE.names.index(name))

    def run(self, on_look=lambda _now: None, seconds=1.0):
        self.collector = Collector(self.accounts, self.connect, on_look)
        self.collector.run(seconds)


@pytest.fixture
def fleet(monkeypatch):
    monkeypatch.setattr(collect, "EVERY_S", 0.01)
    monkeypatch.setattr(collect, "AGAIN_S", 0.01)
    return Fleet()


def stop_when(ready):
    """Return what sends this process a Ctrl-C as soon as something is so."""

    def look(_now):
        if ready():
            os.kill(os.getpid(), signal.SIGINT)

    return look


def test_all_nodes_are_asked_until_the_interrupt_which_is_no_error(fleet):
    nodes = fleet.accounts.values()
    before = signal.getsignal(signal.SIGINT)
    fleet.run(stop_when(lambda: min(each.answers for each in nodes) > 20), 60)
    assert fleet.collector.was_interrupted
    assert fleet.collector.seconds < 50
    assert signal.getsignal(signal.SIGINT) is before
    assert all(each.lost is None for each in nodes)


def test_kernels_are_asked_at_the_end_what_they_logged(fleet):
    lost = "NVRM: Xid (PCI:0000:3b:00): 79, pid=7, name=\x1b[31ma, GPU has fallen off the bus."
    nic = "mlx5_core 0000:5e:00.0 ens2: poll_health:801:(pid 0): device's health compromised"
    fleet.watch.kernel_log = {0: [lost, "NVRM: Xid (PCI:0000:3b:00): 43, pid=7"], 1: [nic]}
    fleet.run(seconds=0.2)
    found = list(kernel_faults(WatchedFleet(fleet.accounts, 9.0)))
    assert [(e.kind, e.node, e.part, e.proven) for e in found] == [
        ("gpu.xid", SHAPE.names[0], "0000:3b:00.0", True),
        ("node.fault", SHAPE.names[1], "0000:5e:00.0", True),
    ]
    assert line(found[0]).startswith(f"{SHAPE.names[0]}: GPU error: its kernel logged 0000:3b:00.0")
    assert all(line(each).isprintable() for each in found)


def test_time_ends_it_too(fleet):
    fleet.run(seconds=0.2)
    assert not fleet.collector.was_interrupted
    assert all(each.answers for each in fleet.accounts.values())


def test_node_that_refuses_is_tried_again_and_costs_no_other(fleet):
    fleet.refused.add("gpu001")
    one, other = fleet.accounts.values()

    def let_in():
        if fleet.connects.count("gpu001") > 2:
            fleet.refused.clear()
        return one.answers > 3

    fleet.run(stop_when(let_in), 60)
    assert one.answers > 3
    assert one.lost is None
    assert other.answers > 3


def test_watch_ends_where_there_is_nobody_to_watch(fleet):
    fleet.refused.update(SHAPE.names)
    fleet.run(seconds=None)
    assert not fleet.collector.was_interrupted
    assert all(each.lost for each in fleet.accounts.values())


def test_connection_that_ends_is_made_again_and_the_gap_is_known(fleet):
    one = fleet.accounts["gpu001"]

    def die_once():
        if one.answers > 3 and not one.gaps:
            fleet.watch.silent.add(0)
        if one.lost is not None:
            fleet.watch.silent.clear()
        return one.gaps and one.lost is None

    fleet.run(stop_when(die_once), 60)
    assert one.gaps
    assert fleet.connects.count("gpu001") >= 2


def test_node_that_hangs_is_given_up_in_time(fleet, monkeypatch):
    monkeypatch.setattr(collect, "OPEN_S", 0.05)
    closed = []

    class Stuck(MadeUpLink):
        def send(self, _command):
            return asyncio.get_running_loop().create_future()

        def close(self):
            closed.append(True)

    async def connect(name):
        number = SHAPE.names.index(name)
        return Stuck(fleet.watch, 0) if number == 0 else MadeUpLink(fleet.watch, number)

    fleet.connect = connect
    one, other = fleet.accounts.values()
    fleet.run(stop_when(lambda: closed and other.answers > 3), 60)
    assert isinstance(one.lost, NodeUnreachable)
    assert "its counters were not read in 0.05 s" in one.lost.message


def test_node_that_says_something_else_is_no_answer(fleet):
    fleet.watch.odd_answers[1] = '{"us": "{{ x }}"}'
    one = fleet.accounts["gpu002"]
    fleet.run(stop_when(lambda: one.lost is not None), 60)
    assert isinstance(one.lost, NoAnswer)
    assert one.lost.message == "gpu002: its answer has a wrong shape"


def test_mistake_of_ours_ends_the_watch_with_its_reason(fleet):
    def break_down(_now):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fleet.run(break_down, 60)


def test_connection_that_said_a_lot_is_renewed_without_a_gap(fleet, monkeypatch):
    monkeypatch.setattr(collect, "RENEW_BYTES", 20_000)
    one = fleet.accounts["gpu001"]
    fleet.run(stop_when(lambda: fleet.connects.count("gpu001") > 2), 60)
    assert one.gaps == []
    assert one.resets == []


def test_more_nodes_than_open_files_are_refused_at_once(fleet, monkeypatch):
    monkeypatch.setattr(collect, "allow_files", lambda _count: 1)
    with pytest.raises(UsageError, match="2 nodes need more open files than allowed: enough for 1"):
        fleet.run()
    assert fleet.connects == []


OWN = Path(node.__file__).parent
SOURCES = (PROGRAM, OWN / "rail_counters.py", OWN / "kept_counters.py", OWN / "devices.py")
LOOPBACK = {"netdev": "lo", "pci": ""}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_program_needs_no_python_newer_than_3_6(path):
    assert ast.parse(path.read_text(), feature_version=(3, 6)).body


def ask(*rounds, rails=(LOOPBACK,), root="/"):
    async def talk():
        connection = await open_connection(here(), node_script(PROGRAM))
        try:
            given = json.dumps({"rails": list(rails), "root": str(root)}).encode()
            said = [await connection.send(Command("open", 9, given))]
            for each in rounds:
                each()
                said.append(await connection.send(Command("read", 9)))
            return [answer.out for answer in said]
        finally:
            connection.close()

    return asyncio.run(talk())


def test_bytes_grow_as_the_kernel_counts_them():
    def move():
        with (
            socket.create_server(("127.0.0.1", 0)) as server,
            socket.create_connection(server.getsockname()) as one,
            server.accept()[0] as other,
        ):
            one.sendall(b"x" * 20_000)
            assert other.recv(1 << 20)

    opened, step = ask(move)
    names = parse_names(opened, 1)
    steps = parse_steps(step, len(names.keys))
    grown = {names.keys[place][1]: by for place, by in zip(steps.at, steps.by, strict=True)}
    assert grown["netdev.tx_bytes"] >= 20_000
    assert "down" not in grown
    assert names.devices == (("", "lo"),)
    assert names.boot == Path("/proc/sys/kernel/random/boot_id").read_text().strip()


@pytest.fixture
def tree(tmp_path):
    device = tmp_path / "sys/class/net/ens1"
    port = tmp_path / "sys/class/infiniband/mlx5_0/ports/1"
    for group in ("counters", "hw_counters", "gid_attrs/ndevs"):
        (port / group).mkdir(parents=True)
    device.mkdir(parents=True)
    (port / "gid_attrs/ndevs/0").write_text("ens1\n")
    (port / "state").write_text("4: ACTIVE\n")
    (port / "counters/port_xmit_data").write_text("100\n")
    (port / "counters/symbol_error").write_text("7\n")
    (port / "hw_counters/np_cnp_sent").write_text("5\n")
    (device / "carrier_changes").write_text("2\n")
    return tmp_path


def test_counters_of_an_rdma_device_fall_vanish_and_lose_their_link(tree):
    port = tree / "sys/class/infiniband/mlx5_0/ports/1"

    def change():
        (port / "counters/port_xmit_data").write_text("160\n")
        (port / "counters/symbol_error").write_text("0\n")
        (port / "hw_counters/np_cnp_sent").write_text("none\n")
        (port / "state").write_text("1: DOWN\n")

    opened, step = ask(change, rails=[{"netdev": "ens1", "pci": ""}], root=tree)
    names = parse_names(opened, 1)
    steps = parse_steps(step, len(names.keys))
    named = {key[1]: place for place, key in enumerate(names.keys)}
    grown = dict(zip(steps.at, steps.by, strict=True))
    assert names.counts[named["port.symbol_error"]] == 7
    assert grown == {
        named["port.port_xmit_data"]: 60,
        named["port.symbol_error"]: -7,
        named["down"]: 1,
    }
    assert steps.gone == [named["hw.np_cnp_sent"]]
    assert names.devices == (("mlx5_0", "ens1"),)


def test_program_ends_with_its_connection():
    source = node_script(PROGRAM)
    boot = f"import sys;exec(sys.stdin.buffer.read({len(source)}))"
    words = [sys.executable, "-I", "-S", "-c", boot, "MARK"]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin
    assert process.stdout
    process.stdin.write(source)
    process.stdin.flush()
    assert [process.stdout.readline() for _ in range(2)] == [b"\n", b"MARK\n"]
    assert process.poll() is None
    process.stdin.close()
    assert until(lambda: process.poll() is not None)
    process.stdout.close()


def test_program_ends_when_nobody_asks_any_more():
    source = node_script(PROGRAM).decode().replace("IDLE_S = 60", "IDLE_S = 0.1")
    words = [sys.executable, "-I", "-S", "-c", source, "MARK"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert until(lambda: process.poll() is not None)


def test_program_leaves_nothing_open_when_it_looks_again(tree):
    """A node that is asked to open anew for hours keeps its descriptors."""
    rails = [{"netdev": "ens1", "pci": ""}, LOOPBACK]
    given = json.dumps({"rails": rails, "root": str(tree)}).encode()

    async def talk():
        connection = await open_connection(here(), node_script(PROGRAM))
        process = cast(LocalLink, connection._link)._process.pid
        try:
            sizes = []
            for _ in range(3):
                await connection.send(Command("open", 9, given))
                sizes.append(len(list(Path(f"/proc/{process}/fd").iterdir())))
            return sizes
        finally:
            connection.close()

    sizes = asyncio.run(talk())
    assert sizes[0] == sizes[1] == sizes[2]
