"""The lab's processes: the switch and one virtual machine for each node."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from rdmaprov.errors import RdmaprovError, UnreachableError
from rdmaprov.lab import qemu, ssh
from rdmaprov.lab.image import ImageStore, Say
from rdmaprov.lab.layout import Layout
from rdmaprov.lab.model import Lab, Node
from rdmaprov.lab.parallel import in_parallel
from rdmaprov.lab.process import Daemon, run

# An emulated node answers after 50 s; eight of them share a machine's processors.
BOOT_TIMEOUT_S = 300.0
POLL_S = 1.0
MONITOR_POLL_S = 0.1
PORT_ATTEMPTS = 5
PORT_TAKEN = "Could not set up host forwarding rule"
START_GRACE_S = 1.0
SSH_TIMEOUT_S = 60.0
LOGIN_ATTEMPTS = 5  # sshd greets a moment before logins are allowed (pam_nologin)

# Prints "RAIL NETDEV" for each rail once its hardware is there.
_READ_RAILS = """
for rail in {rails}; do
    ndev=/sys/class/infiniband/mlx5_$rail/ports/1/gid_attrs/ndevs/0
    for try in $(seq 100); do [ -e $ndev ] && break; sleep 0.3; done
    echo "$rail $(cat $ndev)"
done
"""


class State(StrEnum):
    """How a node is, as seen from outside."""

    UP = "up"
    BOOTING = "booting"  # its machine runs and ssh does not answer
    DOWN = "down"


@dataclass(frozen=True)
class Machines:
    """What runs for a lab; say() tells the user what goes on, answered() that one more is up."""

    layout: Layout
    store: ImageStore
    say: Say
    answered: Callable[[], None] = lambda: None

    def running(self, name: str) -> bool:
        """Return whether a node's machine runs."""
        return self._daemon(name).pid() is not None

    def state(self, node: Node) -> State:
        """Return how a node is."""
        if not self.running(node.name):
            return State.DOWN
        return State.UP if ssh.answers(node) else State.BOOTING

    def boot(self, lab: Lab, nodes: Sequence[Node]) -> Lab:
        """Start those of the nodes that do not run, wait until each answers over ssh.

        Returns the lab with what was found: ports that had to change, names of the netdevs.
        """
        self._start_switch(len(lab.nodes[0].rails))
        for node in nodes:
            lab = self._start(lab, node)
        lab.save(self.layout.state)
        ssh.write_files(self.layout, lab)
        names = [node.name for node in nodes]
        began = time.monotonic()

        def wait(name: str) -> Node:
            node = self._wait(lab.node(name))
            self.say(f"{name} answers after {time.monotonic() - began:.0f} s")
            self.answered()
            return node

        for node in in_parallel(wait, names):
            lab = lab.with_node(node)
        lab.save(self.layout.state)
        return lab

    def stop(self, name: str) -> None:
        """End a node's machine, as pulling its plug would."""
        self._daemon(name).stop()

    def stop_all(self) -> None:
        """End every machine of the lab, and the switch."""
        names = sorted(path.name for path in (self.layout.root / "nodes").glob("*"))
        in_parallel(self.stop, names)
        self._switch().stop()

    def discard_disk(self, name: str) -> None:
        """Remove a node's disk: its next start makes a factory-new one."""
        (self.layout.node(name) / qemu.DISK).unlink(missing_ok=True)

    def discard(self, name: str) -> None:
        """Remove all that is a node's own: disk, host key, logs."""
        with suppress(FileNotFoundError):
            shutil.rmtree(self.layout.node(name))

    def _daemon(self, name: str) -> Daemon:
        return Daemon(self.layout.node(name) / "qemu.pid")

    def _switch(self) -> Daemon:
        return Daemon(self.layout.switch / "switch.pid")

    def _start_switch(self, rails: int) -> None:
        self.layout.switch.mkdir(parents=True, exist_ok=True, mode=0o700)
        words = ["-m", "rdmaprov.lab.switch", str(rails), self.layout.switch.name]
        log = self.layout.switch / "switch.log"
        self._switch().start([sys.executable, *words], cwd=self.layout.root, log=log)

    def _start(self, lab: Lab, node: Node) -> Lab:
        """Start one machine; a port that was taken in the meantime is replaced by a free one."""
        daemon = self._daemon(node.name)
        if daemon.pid() is not None:
            return lab
        directory = self.layout.node(node.name)
        self._ensure_disk(lab, node.name)
        log = directory / "qemu.log"
        for _ in range(PORT_ATTEMPTS):
            log.unlink(missing_ok=True)
            daemon.start(self._machine(lab, node).argv(), cwd=self.layout.root, log=log)
            if self._settled(daemon, directory):
                return lab
            said = log.read_text(errors="replace").strip()
            if PORT_TAKEN not in said:
                raise RdmaprovError(
                    f"the virtual machine of {node.name} did not start: {said[-500:]}",
                    f"See {log}",
                )
            port = free_port()
            self.say(f"{node.name}: port {node.port} is in use by another program; taking {port}")
            node = replace(node, port=port)
            lab = lab.with_node(node)
            lab.save(self.layout.state)
        raise RdmaprovError(f"no port for {node.name} stayed free", "Run: rdmaprov lab up")

    def _settled(self, daemon: Daemon, directory: Path) -> bool:
        """Return whether QEMU got as far as serving its monitor; False when it ended."""
        started = time.monotonic()
        while time.monotonic() < started + BOOT_TIMEOUT_S:
            with suppress(OSError), qemu.monitor(directory):
                return True
            if daemon.pid() is None and time.monotonic() > started + START_GRACE_S:
                return False
            time.sleep(MONITOR_POLL_S)
        return False

    def _ensure_disk(self, lab: Lab, name: str) -> None:
        """Make a node's disk, an overlay on the image, unless it has one on this very image."""
        directory = self.layout.node(name)
        disk = directory / qemu.DISK
        base = directory / "disk.base"
        record = self.store.record(lab.image)
        if disk.exists():
            if base.exists() and base.read_text() == record:
                return
            self.say(f"{name}: its disk belongs to an image that is gone; it gets a new one")
            disk.unlink()
        base.write_text(record)
        new = directory / "disk.new"
        new.unlink(missing_ok=True)
        image = self.store.path(lab.image)
        run(["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", str(image), str(new)])
        new.rename(disk)

    def _machine(self, lab: Lab, node: Node) -> qemu.Machine:
        return qemu.Machine(
            node=node,
            accel=lab.accel,
            memory_mib=lab.memory_mib,
            directory=self.layout.node(node.name).relative_to(self.layout.root),
            torch_disk=self.store.path(lab.torch),
            authorized_keys=ssh.user_key(self.layout).with_suffix(".pub"),
            host_key=ssh.host_key(self.layout, node.name),
            switch=Path(self.layout.switch.name),
        )

    def _wait(self, node: Node) -> Node:
        """Wait until the node answers over ssh and its rails are there; return it with their names.

        Raises:
            UnreachableError: its machine ended, or it did not answer in time.

        """
        give_up = time.monotonic() + BOOT_TIMEOUT_S
        while not ssh.answers(node):
            if not self.running(node.name):
                raise _unreachable(node, "its virtual machine ended while booting")
            if time.monotonic() > give_up:
                raise _unreachable(node, f"no answer over ssh within {BOOT_TIMEOUT_S:.0f} s")
            time.sleep(POLL_S)
        return node.with_netdevs(self._read_rails(node))

    def _read_rails(self, node: Node) -> dict[int, str]:
        script = _READ_RAILS.format(rails=" ".join(str(rail.number) for rail in node.rails))
        said = ""
        for _ in range(LOGIN_ATTEMPTS):
            try:
                done = ssh.call(self.layout, node.name, script, SSH_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                said = f"no answer within {SSH_TIMEOUT_S:.0f} s"
                continue
            if done.returncode == 0:
                lines = [line.split() for line in done.stdout.splitlines()]
                return {int(line[0]): line[1] for line in lines if len(line) == 2}
            said = done.stderr.strip()
            time.sleep(POLL_S)
        raise _unreachable(node, f"its rails could not be read: {said}")


def _unreachable(node: Node, what: str) -> UnreachableError:
    return UnreachableError(f"{node.name}: {what}", f"Run: rdmaprov lab console {node.name}")


def free_port() -> int:
    """Return a TCP port of the loopback address that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind((ssh.ADDRESS, 0))
        return int(probe.getsockname()[1])
