"""Bringing the lab up and down, and single nodes of it."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from rdmaprov.errors import RdmaprovError, UnreachableError, UsageError
from rdmaprov.lab import image, model, qemu, site, ssh, tools
from rdmaprov.lab.accel import Accel, detect, forget
from rdmaprov.lab.image import ImageStore, Recipe, Say
from rdmaprov.lab.layout import Layout
from rdmaprov.lab.model import Lab, Node
from rdmaprov.lab.process import Daemon, run
from rdmaprov.resources import data_dir

# An emulated node answers after 40 s; eight of them share a machine's processors.
BOOT_TIMEOUT_S = 300.0
NODE_FREE_MIB = 2048
POLL_S = 1.0
PORT_ATTEMPTS = 5
PORT_TAKEN = "Could not set up host forwarding rule"
START_GRACE_S = 1.0
SSH_TIMEOUT_S = 60.0
RESET_TIMEOUT_S = 120.0

# Prints "RAIL NETDEV" for each rail once its hardware is there.
_READ_RAILS = """
for rail in {rails}; do
    ndev=/sys/class/infiniband/mlx5_$rail/ports/1/gid_attrs/ndevs/0
    for try in $(seq 100); do [ -e $ndev ] && break; sleep 0.3; done
    echo "$rail $(cat $ndev)"
done
systemctl is-active --quiet 'rdmaprov-lab-rail@*' || true
"""


class State(StrEnum):
    """How a node is, as seen from outside."""

    UP = "up"
    BOOTING = "booting"  # its machine runs and ssh does not answer
    DOWN = "down"


@dataclass(frozen=True)
class Request:
    """What `lab up` was asked for; None leaves it as it is, or at the default."""

    nodes: int | None = None
    rails: int | None = None
    suite: str | None = None
    memory_mib: int | None = None
    accel: Accel | None = None
    site: Path | None = None

    def refuse_difference(self, lab: Lab) -> None:
        """Refuse to go on where a lab that is there is not what was asked for.

        Raises:
            UsageError: naming what differs.

        """
        for option, wanted, seen in (
            ("--nodes", self.nodes, len(lab.nodes)),
            ("--rails", self.rails, len(lab.nodes[0].rails)),
            ("--suite", self.suite, lab.suite),
            ("--memory", self.memory_mib, lab.memory_mib),
            ("--accel", self.accel, lab.accel),
            ("--site", self.site and str(self.site.resolve()), lab.site),
        ):
            if wanted is not None and wanted != seen:
                raise UsageError(
                    f"{option} {wanted}: the lab that is there has {seen}",
                    "Run: rdmaprov lab down, then this again.",
                )


@dataclass(frozen=True)
class Cluster:
    """The operations on one lab; say() tells the user what goes on."""

    layout: Layout
    say: Say

    def load(self) -> Lab:
        """Return the lab.

        Raises:
            RdmaprovError: there is none.

        """
        lab = Lab.load(self.layout.state)
        if lab is None:
            raise RdmaprovError("there is no lab", "Run: rdmaprov lab up")
        return lab

    def up(self, request: Request) -> Lab:
        """Make what is missing of the lab: images, machines, connection facts."""
        tools.require(tools.RUN_TOOLS)
        self.layout.claim()
        lab = Lab.load(self.layout.state) or self._create(request)
        request.refuse_difference(lab)
        self._ensure_images(lab)
        ssh.make_key(ssh.user_key(self.layout), "rdmaprov lab")
        for node in lab.nodes:
            ssh.make_key(ssh.host_key(self.layout, node.name), node.name)
        lab = self._boot(lab, lab.nodes)
        site.write(self.layout, lab)
        return lab

    def _create(self, request: Request) -> Lab:
        nodes = request.nodes or model.DEFAULT_NODES
        rails = request.rails or model.DEFAULT_RAILS
        recipe = Recipe(data_dir("lab"), request.suite or model.DEFAULT_SUITE)
        image.check_space(self.layout.root, nodes * NODE_FREE_MIB)
        accel = request.accel or detect(self.layout.cache)
        if request.accel is None and accel is Accel.TCG and Path("/dev/kvm").exists():
            self.say("/dev/kvm is there, but guests do not boot with it: using emulation (tcg)")
        lab = Lab(
            suite=recipe.suite,
            memory_mib=request.memory_mib or model.DEFAULT_MEMORY_MIB,
            accel=accel,
            image=recipe.key(),
            torch=recipe.torch_key(),
            site=str((request.site or site.default_site()).resolve()),
            nodes=tuple(
                model.new_node(f"node{number}", free_port(), rails)
                for number in range(1, nodes + 1)
            ),
        )
        lab.save(self.layout.state)
        return lab

    def _store(self) -> ImageStore:
        return ImageStore(self.layout.cache / "images", self.say)

    def _ensure_images(self, lab: Lab) -> None:
        """Have both disks in the store; they are built side by side."""
        if any(self._daemon(node.name).pid() for node in lab.nodes):
            return  # what runs has them open
        recipe = Recipe(data_dir("lab"), lab.suite)
        if (recipe.key(), recipe.torch_key()) != (lab.image, lab.torch):
            raise RdmaprovError(
                "the recipe of the lab's images changed since this lab was made",
                "Run: rdmaprov lab down, then rdmaprov lab up",
            )

        def build(make: Callable[[Recipe, Path], Path], what: str) -> Callable[[Path], Path]:
            def building(scratch: Path) -> Path:
                tools.require(tools.BUILD_TOOLS)
                self.say(f"building the {what} (once for each recipe; minutes)")
                return make(recipe, scratch)

            return building

        root, torch = "node image", "torch disk"
        with ThreadPoolExecutor() as pool:
            jobs = [
                pool.submit(self._store().get, key, what, build(make, what))
                for key, what, make in (
                    (lab.image, root, image.build_root),
                    (lab.torch, torch, image.build_torch),
                )
            ]
            for job in jobs:
                job.result()

    # One node

    def _daemon(self, name: str) -> Daemon:
        return Daemon(self.layout.node(name) / "qemu.pid")

    def _switch(self) -> Daemon:
        return Daemon(self.layout.switch / "switch.pid")

    def _boot(self, lab: Lab, nodes: Sequence[Node]) -> Lab:
        """Start those of the nodes that do not run and wait until each answers over ssh."""
        self._start_switch(len(lab.nodes[0].rails))
        for node in nodes:
            lab = self._start(lab, node)
        lab.save(self.layout.state)
        ssh.write_files(self.layout, lab)
        names = [node.name for node in nodes]
        began = time.monotonic()
        with ThreadPoolExecutor(len(names)) as pool:
            for node in pool.map(self._wait, [lab.node(name) for name in names]):
                self.say(f"{node.name} answers after {time.monotonic() - began:.0f} s")
                lab = lab.with_node(node)
        lab.save(self.layout.state)
        return lab

    def _start_switch(self, rails: int) -> None:
        self.layout.switch.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._switch().start(
            [sys.executable, "-m", "rdmaprov.lab.switch", str(rails), self.layout.switch.name],
            cwd=self.layout.root,
            log=self.layout.switch / "switch.log",
        )

    def _start(self, lab: Lab, node: Node) -> Lab:
        """Start one machine; a port that was taken in the meantime is replaced by a free one."""
        daemon = self._daemon(node.name)
        directory = self.layout.node(node.name)
        self._ensure_disk(lab, directory)
        for _ in range(PORT_ATTEMPTS):
            if daemon.pid() is not None:
                return lab
            log = directory / "qemu.log"
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
        give_up = time.monotonic() + BOOT_TIMEOUT_S
        started = time.monotonic()
        while time.monotonic() < give_up:
            with suppress(OSError), qemu.monitor(directory):
                return True
            if daemon.pid() is None and time.monotonic() > started + START_GRACE_S:
                return False
            time.sleep(POLL_S)
        return False

    def _ensure_disk(self, lab: Lab, directory: Path) -> None:
        disk = directory / qemu.DISK
        if disk.exists():
            return
        new = directory / "disk.new"
        new.unlink(missing_ok=True)
        base = self._store().path(lab.image)
        run(["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", str(base), str(new)])
        new.rename(disk)

    def _machine(self, lab: Lab, node: Node) -> qemu.Machine:
        return qemu.Machine(
            node=node,
            accel=lab.accel,
            memory_mib=lab.memory_mib,
            directory=self.layout.node(node.name).relative_to(self.layout.root),
            torch_disk=self._store().path(lab.torch),
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
            if self._daemon(node.name).pid() is None:
                raise UnreachableError(
                    f"the virtual machine of {node.name} ended while booting",
                    f"Run: rdmaprov lab console {node.name}",
                )
            if time.monotonic() > give_up:
                raise UnreachableError(
                    f"{node.name} did not answer over ssh within {BOOT_TIMEOUT_S:.0f} s",
                    f"Run: rdmaprov lab console {node.name}",
                )
            time.sleep(POLL_S)
        return node.with_netdevs(self._read_rails(node))

    def _read_rails(self, node: Node) -> dict[int, str]:
        script = _READ_RAILS.format(rails=" ".join(str(rail.number) for rail in node.rails))
        said = ""
        for _ in range(3):  # sshd greets a moment before logins are allowed (pam_nologin)
            try:
                done = ssh.call(self.layout, node.name, script, SSH_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                said = f"no answer within {SSH_TIMEOUT_S:.0f} s"
                continue
            if done.returncode == 0:
                lines = [line.split() for line in done.stdout.splitlines()]
                return {int(line[0]): line[1] for line in lines if len(line) == 2}
            said = done.stderr.strip()
            time.sleep(1)
        raise UnreachableError(
            f"{node.name}: its rails could not be read: {said}",
            f"Run: rdmaprov lab console {node.name}",
        )

    def state(self, node: Node) -> State:
        """Return how a node is."""
        if self._daemon(node.name).pid() is None:
            return State.DOWN
        return State.UP if ssh.answers(node) else State.BOOTING

    def states(self, lab: Lab) -> list[State]:
        """Return how each node of the lab is, in their order."""
        with ThreadPoolExecutor(len(lab.nodes)) as pool:
            return list(pool.map(self.state, lab.nodes))

    def require_running(self, name: str) -> Node:
        """Return the node of that name.

        Raises:
            UsageError: there is none.
            UnreachableError: its machine does not run.

        """
        node = self.load().node(name)
        if self._daemon(name).pid() is None:
            raise UnreachableError(f"{name} is down", "Run: rdmaprov lab up")
        return node

    def _stop(self, name: str) -> None:
        self._daemon(name).stop()

    def reset(self, name: str) -> Lab:
        """Give a node a factory-new disk: same machine, same keys, same addresses."""
        lab = self.load()
        node = lab.node(name)
        self._stop(name)
        (self.layout.node(name) / qemu.DISK).unlink(missing_ok=True)
        return self._reboot_into(lab, node)

    def replace(self, name: str) -> Lab:
        """Put another machine in a node's place: new disk, new host key, new MAC addresses."""
        lab = self.load()
        old = lab.node(name)
        self._stop(name)
        shutil.rmtree(self.layout.node(name))
        ssh.make_key(ssh.host_key(self.layout, name), name)
        node = model.new_node(name, old.port, len(old.rails))
        return self._reboot_into(lab.with_node(node), node)

    def _reboot_into(self, lab: Lab, node: Node) -> Lab:
        self._ensure_images(lab)
        lab = self._boot(lab, [node])
        site.write(self.layout, lab)
        return lab

    def reboot(self, name: str) -> Lab:
        """Restart a node, by itself if it still can, and wait until it answers again."""
        lab = self.load()
        node = self.require_running(name)
        if not qemu.reboot(name, self.layout.node(name), RESET_TIMEOUT_S):
            self.say(f"{name} did not shut down by itself; it was reset")
        return self._boot(lab, [node])

    def down(self, *, purge: bool) -> bool:
        """End the lab and remove it, with its images if purged; False where there was none."""
        directories = sorted((self.layout.root / "nodes").glob("*"))
        with ThreadPoolExecutor(max(1, len(directories))) as pool:
            list(pool.map(lambda directory: self._stop(directory.name), directories))
        self._switch().stop()
        with suppress(RdmaprovError):
            lab = Lab.load(self.layout.state)
            if lab is not None:
                site.remove(lab)
        existed = self.layout.release()
        if purge:
            self._store().purge()
            forget(self.layout.cache)
        return existed


def free_port() -> int:
    """Return a TCP port of the loopback address that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind((ssh.ADDRESS, 0))
        return int(probe.getsockname()[1])
