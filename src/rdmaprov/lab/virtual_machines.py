"""The lab's processes: the switch and one virtual machine for each node."""

import shutil
import socket
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from rdmaprov.errors import RdmaprovError
from rdmaprov.lab import monitor, patience, qemu, shapes, snapshot, ssh
from rdmaprov.lab.image import ImageStore, Say
from rdmaprov.lab.layout import Layout
from rdmaprov.lab.login import BOOT_TIMEOUT_S, Login
from rdmaprov.lab.model import Lab, LabNode
from rdmaprov.lab.patience import limit_s
from rdmaprov.lab.process import Daemon, run
from rdmaprov.lab.qemu import DISK
from rdmaprov.lab.shapes import Shape
from rdmaprov.lab.tools import in_parallel

BASE = "disk.base"  # which build of the image the disk lies on
MONITOR_POLL_S = 0.1
PORT_ATTEMPTS = 5
PORT_TAKEN = "Could not set up host forwarding rule"
START_GRACE_S = 1.0


def fits(node_dir: Path, image_record: str) -> bool:
    """Return whether the node has a disk on this very build of the image."""
    base = node_dir / BASE
    return (node_dir / DISK).exists() and base.exists() and base.read_text() == image_record


def make(node_dir: Path, image: Path, image_record: str) -> None:
    """Give the node a new disk; the old one goes, with the states that were saved in it."""
    discard(node_dir)
    (node_dir / BASE).write_text(image_record)
    new = node_dir / "disk.new"
    new.unlink(missing_ok=True)
    run(["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", str(image), str(new)])
    new.rename(node_dir / DISK)


def discard(node_dir: Path) -> None:
    """Remove the node's disk: its next start makes a factory-new one."""
    (node_dir / DISK).unlink(missing_ok=True)


class State(StrEnum):
    """The state of a node as seen from outside."""

    UP = "up"
    BOOTING = "booting"  # the machine runs and ssh does not answer
    PAUSED = "paused"  # a save or restore runs, or was interrupted
    DOWN = "down"


@dataclass(frozen=True)
class Machines:
    """The processes of a lab; on_answer() is called for each node that answers."""

    layout: Layout
    store: ImageStore
    say: Say
    on_answer: Callable[[], None] = lambda: None

    def is_running(self, name: str) -> bool:
        """Return whether a node's machine runs."""
        return self._daemon(name).pid() is not None

    def is_paused(self, name: str) -> bool:
        """Return whether a node's machine is paused to save or restore it."""
        return self._interruption(name).exists() and snapshot.is_paused(self.layout.node(name))

    def state(self, node: LabNode) -> State:
        """Return the state of a node."""
        if not self.is_running(node.name):
            return State.DOWN
        if self.is_paused(node.name):
            return State.PAUSED
        return State.UP if ssh.answers(self.layout, node) else State.BOOTING

    def boot(self, lab: Lab, nodes: Sequence[LabNode], saved_state: str | None = None) -> Lab:
        """Start those of the nodes that do not run, wait until each answers over ssh.

        Returns the lab with what was found: ports that had to change, names of the netdevs.
        """
        patience.measure(self.layout.root, lab.accel)
        late = [node for node in nodes if not self.is_running(node.name)]
        self._start_switch(len(lab.nodes[0].rails))
        self._write_factory(lab)
        for node in nodes:
            lab = self._start(lab, node, saved_state)
        lab.save(self.layout.state)
        ssh.write_files(self.layout, lab)
        names = [node.name for node in nodes]
        login = Login(self.layout, self.is_running)
        began = time.monotonic()

        def wait(name: str) -> LabNode:
            node = lab.node(name)
            self.resume(name)
            if saved_state is None:
                node = login.wait_for_boot(node, self._shape(lab, node).boots)
            else:  # it was up when it was saved, and its rails may be what a fault made of them
                login.wait(node)
            self.say(f"{name} answers after {time.monotonic() - began:.0f} s")
            self.on_answer()
            return node

        for node in in_parallel(wait, names):
            lab = lab.with_node(node)
        lab.save(self.layout.state)
        if late and saved_state is None:
            boots = max(self._shape(lab, node).boots for node in late)
            patience.keep_boot(self.layout.root, (time.monotonic() - began) / boots)
        return lab

    def restore(self, lab: Lab, nodes: Sequence[LabNode], saved_state: str) -> Lab:
        """Start nodes anew from a saved state, all at the same moment.

        A new process has none of the old one's connections, so these end at once.
        """
        names = [node.name for node in nodes]
        for name in names:
            self._interruption(name).touch()
        in_parallel(self.stop, names)
        return self.boot(lab, nodes, saved_state)

    def save(self, names: Sequence[str], saved_state: str) -> None:
        """Save all nodes at one moment, and let them run on; or raise RdmaprovError."""

        def on_each(work: Callable[[str, Path, str], None]) -> None:
            in_parallel(lambda name: work(name, self.layout.node(name), saved_state), names)

        try:
            for name in names:
                self._interruption(name).touch()
                snapshot.pause(name, self.layout.node(name))
            on_each(snapshot.save)
        except RdmaprovError:
            on_each(snapshot.delete)
            raise
        finally:
            in_parallel(self.resume, names)

    def resume(self, name: str) -> None:
        """Let a node run on that was paused to save or restore it, and set its clock."""
        if not self._interruption(name).exists():
            return
        snapshot.resume(name, self.layout.node(name))
        snapshot.set_clock(name, self.layout.node(name))
        self._interruption(name).unlink()

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
        discard(self.layout.node(name))
        self._interruption(name).unlink(missing_ok=True)

    def discard(self, name: str) -> None:
        """Remove all that is a node's own: disk, host key, logs."""
        with suppress(FileNotFoundError):
            shutil.rmtree(self.layout.node(name))

    def _daemon(self, name: str) -> Daemon:
        return Daemon(self.layout.node(name) / "qemu.pid")

    def _interruption(self, name: str) -> Path:
        """Return the file that exists from before a node is paused until its clock is right."""
        return self.layout.node(name) / "interrupted"

    def _switch(self) -> Daemon:
        return Daemon(self.layout.switch / "switch.pid")

    def _start_switch(self, rails: int) -> None:
        self.layout.switch.mkdir(parents=True, exist_ok=True, mode=0o700)
        words = ["-m", "rdmaprov.lab.switch", str(rails), self.layout.switch.name]
        log = self.layout.switch / "switch.log"
        self._switch().start([sys.executable, *words], cwd=self.layout.root, log=log)

    def _start(self, lab: Lab, node: LabNode, saved_state: str | None) -> Lab:
        """Start one machine; a port that was taken in the meantime is replaced by a free one."""
        daemon = self._daemon(node.name)
        if daemon.pid() is not None:
            return lab
        directory = self.layout.node(node.name)
        lab = self._ensure_disk(lab, node.name)
        if saved_state is None:  # a boot reads the right time from the machine's own clock
            self._interruption(node.name).unlink(missing_ok=True)
        log = directory / "qemu.log"
        for _ in range(PORT_ATTEMPTS):
            log.unlink(missing_ok=True)
            machine = replace(self._machine(lab, node), saved_state=saved_state)
            daemon.start(machine.argv(), cwd=self.layout.root, log=log)
            if self._wait_for_monitor(daemon, directory):
                return lab
            said = log.read_text(errors="replace").strip()
            if PORT_TAKEN not in said:
                raise _start_failure(node.name, saved_state, said[-500:], log)
            port = free_port()
            self.say(f"{node.name}: port {node.port} is in use by another program; taking {port}")
            node = replace(node, port=port)
            lab = lab.with_node(node)
            lab.save(self.layout.state)
        raise RdmaprovError(f"no port for {node.name} stayed free", "Run: rdmaprov lab up")

    def _wait_for_monitor(self, daemon: Daemon, directory: Path) -> bool:
        """Return whether QEMU got as far as serving its monitor; False when it ended."""
        started = time.monotonic()
        while time.monotonic() < started + limit_s(BOOT_TIMEOUT_S, directory):
            with suppress(OSError), monitor.qemu(directory):
                return True
            if daemon.pid() is None and time.monotonic() > started + START_GRACE_S:
                return False
            time.sleep(MONITOR_POLL_S)
        return False

    def has_disk(self, lab: Lab, name: str) -> bool:
        """Return whether a node has a disk that belongs to the lab's image."""
        return fits(self.layout.node(name), self.store.record(lab.image_of(name)))

    def _ensure_disk(self, lab: Lab, name: str) -> Lab:
        """Make a node's disk unless it has one on this very image; return the lab after that."""
        if self.has_disk(lab, name):
            return lab
        directory = self.layout.node(name)
        if (directory / qemu.DISK).exists():
            self.say(f"{name}: its disk belongs to an image that is gone; it gets a new one")
            lab = lab.without_saved_states_of([name])
            lab.save(self.layout.state)
        image = lab.image_of(name)
        make(directory, self.store.path(image), self.store.record(image))
        return lab

    def _write_factory(self, lab: Lab) -> None:
        """Write what the nodes run at their first boot, as the lab's shapes have it."""
        for shape in shapes.of_nodes(lab.shape, len(lab.nodes)):
            if shape.factory:
                self._factory(shape).write_text(shape.script())

    def _factory(self, shape: Shape) -> Path:
        return self.layout.root / f"factory-{shape.name}.sh"

    def _shape(self, lab: Lab, node: LabNode) -> Shape:
        kinds = shapes.of_nodes(lab.shape, len(lab.nodes))
        return kinds[[each.name for each in lab.nodes].index(node.name)]

    def _machine(self, lab: Lab, node: LabNode) -> qemu.Machine:
        shape = self._shape(lab, node)
        return qemu.Machine(
            node=node,
            accel=lab.accel,
            memory_mib=lab.memory_mib,
            directory=self.layout.node(node.name).relative_to(self.layout.root),
            torch_disk=self.store.path(lab.torch),
            authorized_keys=ssh.user_key(self.layout).with_suffix(".pub"),
            host_key=ssh.host_key(self.layout, node.name),
            switch=Path(self.layout.switch.name),
            factory=self._factory(shape) if shape.factory else None,
            numa=shape.numa,
        )


def _start_failure(name: str, saved_state: str | None, said: str, log: Path) -> RdmaprovError:
    if saved_state is None:
        return RdmaprovError(f"the virtual machine of {name} did not start: {said}", f"See {log}")
    return RdmaprovError(
        f"{name} did not start from the saved state {saved_state!r}: {said}",
        "To boot it from its current disk: rdmaprov lab up",
    )


def free_port() -> int:
    """Return a TCP port of the loopback address that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind((ssh.ADDRESS, 0))
        return int(probe.getsockname()[1])
