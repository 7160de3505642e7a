"""The virtual machine of one node: its command line, and talking to it without its network."""

from __future__ import annotations

import base64
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rdmaprov.errors import UnreachableError
from rdmaprov.lab.accel import Accel
from rdmaprov.lab.model import Node
from rdmaprov.lab.ssh import ADDRESS

NUMA_NODES = 2
DISK = "disk.qcow2"  # in the node's directory
RAIL_SPEED_MBPS = 10_000  # what ethtool reports; the slowest rate a fabric has
FIRMWARE = "opt/org.rdmaprov"  # fw_cfg directory that the guest's identity unit reads
MANAGEMENT_SLOT = 2  # 10-management.network in the image names it
FIRST_BRIDGE_SLOT = 16
FIRST_BUS = 32
BUS_STEP = 16
ANSWER_TIMEOUT_S = 30.0
POLL_S = 0.1


@dataclass(frozen=True)
class Machine:
    """What QEMU is told about one node.

    It runs in the lab's directory, as the switch does: a socket's name must mean the same to
    both, and relative names always fit into the 107 bytes that a socket's name may have.
    """

    node: Node
    directory: Path  # of the node
    accel: Accel
    memory_mib: int
    torch_disk: Path
    authorized_keys: Path
    host_key: Path
    switch: Path

    def argv(self) -> list[str]:
        """Return the command line."""
        return [
            "qemu-system-x86_64",
            *("-name", self.node.name, "-machine", "q35"),
            *self.accel.arguments,
            *("-nodefaults", "-no-user-config", "-display", "none"),
            *self._memory(),
            *self._management(),  # before what QEMU finds a slot for by itself
            *self._disks(),
            *(word for rail in self.node.rails for word in self._rail(rail.number, rail.mac)),
            *self._firmware(),
            *("-chardev", f"file,id=console,path={self.directory}/console.log,append=on"),
            *("-serial", "chardev:console"),
            *("-chardev", f"socket,id=agent,path={self.directory}/agent.sock,server=on,wait=off"),
            *("-device", "virtio-serial-pci,bus=pcie.0"),
            *("-device", "virtserialport,chardev=agent,name=org.qemu.guest_agent.0"),
            *("-device", "virtio-rng-pci,bus=pcie.0"),
            *("-qmp", f"unix:{self.directory}/qmp.sock,server=on,wait=off"),
        ]

    def _memory(self) -> Iterator[str]:
        # Emulated kernels die now and then when they patch their own code with two processors
        # running ("Oops: int3"), so there the second NUMA node is memory and rails alone.
        cpus = NUMA_NODES if self.accel is Accel.KVM else 1
        yield from ("-m", str(self.memory_mib), "-smp", f"{cpus},sockets={cpus}")
        for numa in range(NUMA_NODES):
            size = self.memory_mib // NUMA_NODES
            cpu = f",cpus={numa}" if numa < cpus else ""
            yield from ("-object", f"memory-backend-ram,id=memory{numa},size={size}M")
            yield from ("-numa", f"node,nodeid={numa}{cpu},memdev=memory{numa}")

    def _disks(self) -> Iterator[str]:
        # cache=unsafe: a lab that loses its host's power is built anew.
        for name, path, more in (
            ("root", self.directory / DISK, ",format=qcow2"),
            ("torch", self.torch_disk, ",format=raw,readonly=on"),
        ):
            yield from ("-drive", f"if=none,id={name},file={_value(path)},cache=unsafe{more}")
            yield from ("-device", f"virtio-blk-pci,bus=pcie.0,drive={name}")

    def _management(self) -> Iterator[str]:
        yield from ("-netdev", f"user,id=mgmt,hostfwd=tcp:{ADDRESS}:{self.node.port}-:22")
        yield "-device"
        yield (
            f"virtio-net-pci,bus=pcie.0,addr={MANAGEMENT_SLOT:#x},netdev=mgmt,"
            f"mac={self.node.management_mac},romfile="
        )

    def _rail(self, number: int, mac: str) -> Iterator[str]:
        # A host bridge of its own for each rail: the only way to a PCI device with a NUMA node.
        numa = number * NUMA_NODES // len(self.node.rails)
        bridge = (
            f"pxb-pcie,bus=pcie.0,id=bridge{number},bus_nr={FIRST_BUS + BUS_STEP * number},"
            f"numa_node={numa},addr={FIRST_BRIDGE_SLOT + number:#x}"
        )
        port = (
            f"pcie-root-port,bus=bridge{number},id=port{number},slot={number + 1},"
            f"chassis={number + 1}"
        )
        netdev = (
            f"dgram,id=rail{number},local.type=unix,local.path={self.directory}/rail{number}.sock,"
            f"remote.type=unix,remote.path={self.switch}/rail{number}"
        )
        nic = (
            f"virtio-net-pci,bus=port{number},netdev=rail{number},mac={mac},"
            f"speed={RAIL_SPEED_MBPS},duplex=full,romfile="
        )
        yield from ("-device", bridge, "-device", port, "-netdev", netdev, "-device", nic)

    def _firmware(self) -> Iterator[str]:
        rails = " ".join(rail.mac for rail in self.node.rails)
        yield from ("-fw_cfg", f"name={FIRMWARE}/hostname,string={self.node.name}")
        yield from ("-fw_cfg", f"name={FIRMWARE}/rails,string={rails}")
        yield from (
            "-fw_cfg",
            f"name={FIRMWARE}/authorized_keys,file={_value(self.authorized_keys)}",
        )
        yield from ("-fw_cfg", f"name={FIRMWARE}/host_key,file={_value(self.host_key)}")


def _value(path: Path) -> str:
    """Return a path as QEMU's options want it: a comma would end the value."""
    return str(path).replace(",", ",,")


class _Peer:
    """One end of a line-wise JSON conversation (QEMU's monitor, the guest's agent)."""

    def __init__(self, connection: socket.socket) -> None:
        self._lines = connection.makefile("rwb")

    def receive(self) -> dict[str, Any]:
        line = self._lines.readline()
        if not line:
            raise ConnectionError("the other end closed the connection")
        message: dict[str, Any] = json.loads(line.lstrip(b"\xff"))
        return message

    def send(self, execute: str, **arguments: Any) -> None:  # noqa: ANN401 - JSON
        request = {"execute": execute} | ({"arguments": arguments} if arguments else {})
        self._lines.write(json.dumps(request).encode() + b"\n")
        self._lines.flush()

    def ask(self, execute: str, **arguments: Any) -> Any:  # noqa: ANN401 - JSON
        self.send(execute, **arguments)
        while True:
            answer = self.receive()
            if "return" in answer:
                return answer["return"]
            if "error" in answer:
                raise UnreachableError(
                    f"{execute}: {answer['error'].get('desc')}", "See: rdmaprov lab console NODE"
                )


@contextmanager
def _conversation(path: Path, timeout_s: float) -> Iterator[_Peer]:
    # A socket's path may have 107 bytes; by way of a directory descriptor it always fits.
    directory = os.open(path.parent, os.O_PATH)
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(timeout_s)
            connection.connect(f"/proc/self/fd/{directory}/{path.name}")
            yield _Peer(connection)
    finally:
        os.close(directory)


@contextmanager
def monitor(node_dir: Path, timeout_s: float = ANSWER_TIMEOUT_S) -> Iterator[_Peer]:
    """Give QEMU's own monitor of a node, ready for commands."""
    with _conversation(node_dir / "qmp.sock", timeout_s) as peer:
        peer.receive()
        peer.ask("qmp_capabilities")
        yield peer


@contextmanager
def _agent(node: str, node_dir: Path, timeout_s: float) -> Iterator[_Peer]:
    """Give the agent inside a node: it answers whatever state the node's network is in.

    Raises:
        UnreachableError: no agent answered.

    """
    try:
        with _conversation(node_dir / "agent.sock", timeout_s) as peer:
            # An earlier conversation may have left an answer behind: ask for a number of ours.
            number = time.monotonic_ns() & 0xFFFFFFFF
            peer.send("guest-sync-delimited", id=number)
            while peer.receive().get("return") != number:
                pass
            yield peer
    except (OSError, ValueError) as error:
        raise UnreachableError(
            f"{node} does not answer, not even on its console channel ({error})",
            f"Run: rdmaprov lab console {node}",
        ) from error


@dataclass(frozen=True)
class Outcome:
    """How a program inside a node ended."""

    returncode: int
    stdout: str
    stderr: str


def run_inside(node: str, node_dir: Path, script: str, timeout_s: float) -> Outcome:
    """Run a shell script as root inside a node, over the console channel.

    Raises:
        UnreachableError: the node's agent did not answer, or the script ran past timeout_s.

    """
    give_up = time.monotonic() + timeout_s
    with _agent(node, node_dir, timeout_s) as agent:
        started = agent.ask(
            "guest-exec",
            **{
                "path": "/bin/sh",
                "arg": ["-s"],
                "env": ["PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"],
                "input-data": base64.b64encode(script.encode()).decode(),
                "capture-output": True,
            },
        )
        while True:
            status = agent.ask("guest-exec-status", pid=started["pid"])
            if status["exited"]:
                return Outcome(
                    int(status.get("exitcode", -int(status.get("signal", 1)))),
                    base64.b64decode(status.get("out-data", "")).decode(errors="replace"),
                    base64.b64decode(status.get("err-data", "")).decode(errors="replace"),
                )
            if time.monotonic() > give_up:
                raise UnreachableError(
                    f"{node}: a command ran past {timeout_s:.0f} s",
                    f"Run: rdmaprov lab console {node}",
                )
            time.sleep(POLL_S)


def reboot(node: str, node_dir: Path, timeout_s: float) -> bool:
    """Restart a node and return True if it went down by itself, False if it was reset.

    Raises:
        UnreachableError: QEMU itself does not answer.

    """
    try:
        with monitor(node_dir, timeout_s) as qemu:
            try:
                with _agent(node, node_dir, ANSWER_TIMEOUT_S) as agent:
                    agent.send("guest-shutdown", mode="reboot")
                while qemu.receive().get("event") != "RESET":
                    pass
            except (UnreachableError, TimeoutError):
                qemu.ask("system_reset")
                return False
            return True
    except OSError as error:
        raise UnreachableError(
            f"the virtual machine of {node} does not answer ({error})", "Run: rdmaprov lab up"
        ) from error
