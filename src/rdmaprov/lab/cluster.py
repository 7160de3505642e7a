"""Bringing the lab up and down, and single nodes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rdmaprov.errors import RdmaprovError, UnreachableError, UsageError
from rdmaprov.lab import build, image, model, qemu, site, ssh, tools
from rdmaprov.lab.accel import Accel, detect, forget
from rdmaprov.lab.image import ImageStore, Recipe, Say
from rdmaprov.lab.layout import Layout
from rdmaprov.lab.machines import Machines, State, free_port
from rdmaprov.lab.model import Lab, Node
from rdmaprov.lab.parallel import in_parallel
from rdmaprov.resources import data_dir

NODE_FREE_MIB = 2048
RESET_TIMEOUT_S = 120.0


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
    """The operations on one lab.

    Args:
        layout: where the lab is.
        say: tells the user what goes on.
        answered: is called for each node that answers after a start.

    """

    layout: Layout
    say: Say
    answered: Callable[[], None] = lambda: None

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
        lab = self._machines.boot(lab, lab.nodes)
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

    @property
    def _store(self) -> ImageStore:
        return ImageStore(self.layout.cache / "images", self.say)

    @property
    def _machines(self) -> Machines:
        return Machines(self.layout, self._store, self.say, self.answered)

    def states(self, lab: Lab) -> list[State]:
        """Return how each node of the lab is, in their order."""
        return in_parallel(self._machines.state, lab.nodes)

    def require_running(self, name: str) -> Node:
        """Return the node of that name.

        Raises:
            UsageError: there is none.
            UnreachableError: its machine does not run.

        """
        node = self.load().node(name)
        if not self._machines.running(name):
            raise UnreachableError(f"{name} is down", "Run: rdmaprov lab up")
        return node

    def _ensure_images(self, lab: Lab) -> None:
        if any(self._machines.running(node.name) for node in lab.nodes):
            return  # what runs has them open
        recipe = Recipe(data_dir("lab"), lab.suite)
        if (recipe.key(), recipe.torch_key()) != (lab.image, lab.torch):
            raise RdmaprovError(
                "the recipe of the lab's images changed since this lab was made",
                "Run: rdmaprov lab down, then rdmaprov lab up",
            )
        build.ensure(recipe, self._store, self.say)

    def reset(self, names: Iterable[str]) -> Lab:
        """Give nodes factory-new disks: same machines, same keys, same addresses."""
        lab = self.load()
        nodes = [lab.node(name) for name in dict.fromkeys(names)]
        for node in nodes:
            self._machines.stop(node.name)
            self._machines.discard_disk(node.name)
        return self._reboot_into(lab, nodes)

    def replace(self, name: str) -> Lab:
        """Put another machine in a node's place: new disk, new host key, new MAC addresses."""
        lab = self.load()
        old = lab.node(name)
        self._machines.stop(name)
        self._machines.discard(name)
        ssh.make_key(ssh.host_key(self.layout, name), name)
        node = model.new_node(name, old.port, len(old.rails))
        return self._reboot_into(lab.with_node(node), [node])

    def _reboot_into(self, lab: Lab, nodes: list[Node]) -> Lab:
        self._ensure_images(lab)
        lab = self._machines.boot(lab, nodes)
        site.write(self.layout, lab)
        return lab

    def reboot(self, name: str) -> Lab:
        """Restart a node, by itself if it still can, and wait until it answers again."""
        lab = self.load()
        node = self.require_running(name)
        if not qemu.reboot(name, self.layout.node(name), RESET_TIMEOUT_S):
            self.say(f"{name} did not shut down by itself; it was reset")
        return self._machines.boot(lab, [node])

    def down(self, *, purge: bool) -> bool:
        """End the lab and remove it, with its images if purged; False where there was none."""
        self._machines.stop_all()
        with suppress(RdmaprovError):
            lab = Lab.load(self.layout.state)
            if lab is not None:
                site.remove(lab)
        existed = self.layout.release()
        if purge:
            self._store.purge()
            forget(self.layout.cache)
        return existed
