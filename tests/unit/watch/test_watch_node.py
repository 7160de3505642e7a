"""The program on a watched node: it reads what the kernel has, speaks the agent's way, and ends."""

from __future__ import annotations

import ast
import asyncio
import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.helpers.local_node import here
from tests.unit.helpers.waiting import until

from rdmaprov import node
from rdmaprov.probe.connection import Command, open_connection
from rdmaprov.probe.script import node_script
from rdmaprov.watch.answers import parse_names, parse_steps
from rdmaprov.watch.collect import PROGRAM

OWN = Path(node.__file__).parent
SOURCES = (PROGRAM, OWN / "rail_counters.py", OWN / "kept_counters.py", OWN / "devices.py")
LOOPBACK = {"netdev": "lo", "pci": ""}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_program_needs_no_python_newer_than_3_6(path):
    assert ast.parse(path.read_text(), feature_version=(3, 6)).body


def ask(*rounds, rails=(LOOPBACK,), root="/"):
    """Return the answers to `open` and to a `read` after each round."""

    async def talk():
        connection = await open_connection(here(), node_script(PROGRAM))
        try:
            given = json.dumps({"rails": list(rails), "root": str(root)}).encode()
            said = [await connection.send([Command("open", 9, given)])[0]]
            for each in rounds:
                each()
                said.append(await connection.send([Command("read", 9)])[0])
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
    """Provide a sysfs with an RDMA device, as mlx5 has it."""
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
        process = connection._process.pid
        try:
            sizes = []
            for _ in range(3):
                await connection.send([Command("open", 9, given)])[0]
                sizes.append(len(list(Path(f"/proc/{process}/fd").iterdir())))
            return sizes
        finally:
            connection.close()

    sizes = asyncio.run(talk())
    assert sizes[0] == sizes[1] == sizes[2]
