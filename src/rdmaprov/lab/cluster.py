"""The operations on a lab: up and down, save and restore, and those on single nodes."""

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from rdmaprov.errors import RdmaprovError, UnreachableError, UsageError
from rdmaprov.lab import build, image, model, monitor, patience, shapes, site, ssh, tools
from rdmaprov.lab.image import ImageStore, Recipe, Say
from rdmaprov.lab.layout import Layout
from rdmaprov.lab.login import POLL_S
from rdmaprov.lab.model import Lab, LabNode, SavedState
from rdmaprov.lab.patience import limit_s
from rdmaprov.lab.request import LabRequest
from rdmaprov.lab.tools import in_parallel
from rdmaprov.lab.virtual_machines import Machines, State
from rdmaprov.resources import data_dir

RESET_TIMEOUT_S = 120.0
UP_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Cluster:
    """The operations on one lab."""

    layout: Layout
    say: Say
    # is called for each node that answers after a start
    on_answer: Callable[[], None] = lambda: None

    def load(self) -> Lab:
        """Return the lab; raise RdmaprovError if there is none."""
        lab = Lab.load(self.layout.state)
        if lab is None:
            raise RdmaprovError("there is no lab", "Run: rdmaprov lab up")
        return lab

    def up(self, request: LabRequest) -> Lab:
        """Make what is missing of the lab: images, machines, the site's hosts.yml."""
        tools.require(tools.RUN_TOOLS)
        self.layout.claim()
        lab = Lab.load(self.layout.state) or request.create(self.layout, self.say)
        request.refuse_difference(lab)
        patience.measure(self.layout.root, lab.accel)
        self._ensure_images(lab)
        ssh.make_key(ssh.user_key(self.layout), "rdmaprov lab")
        for node in lab.nodes:
            ssh.make_key(ssh.host_key(self.layout, node.name), node.name)
        lab = self._machines.boot(lab, lab.nodes)
        site.write(self.layout, lab)
        return lab

    @property
    def _store(self) -> ImageStore:
        return ImageStore(self.layout.cache / "images", self.say)

    @property
    def _machines(self) -> Machines:
        return Machines(self.layout, self._store, self.say, self.on_answer)

    def states(self, lab: Lab) -> list[State]:
        """Return the state of each node, in their order."""
        return in_parallel(self._machines.state, lab.nodes)

    def require_running(self, name: str) -> LabNode:
        """Return the node of that name.

        Raises:
            UsageError: there is none.
            UnreachableError: its machine does not run.
        """
        node = self.load().node(name)
        if not self._machines.is_running(name):
            raise UnreachableError(f"{name} is down", "Run: rdmaprov lab up")
        if self._machines.is_paused(name):
            raise UnreachableError(
                f"{name} is paused: `rdmaprov lab save` or `restore` runs, or was interrupted",
                "If none runs, let the node run on: rdmaprov lab up",
            )
        return node

    def _ensure_images(self, lab: Lab) -> None:
        if any(self._machines.is_running(node.name) for node in lab.nodes):
            return  # what runs has them open
        recipe = Recipe(data_dir("lab"), lab.suite)
        if (recipe.key(), recipe.torch_key()) != (lab.image, lab.torch):
            raise RdmaprovError(
                "the recipe of the lab's images changed since this lab was made",
                "Run: rdmaprov lab down, then rdmaprov lab up",
            )
        own = {shape.suite for shape in shapes.of_nodes(lab.shape, len(lab.nodes))}
        for suite in dict.fromkeys(suite or lab.suite for suite in own):
            build.ensure(Recipe(recipe.directory, suite), self._store, self.say)

    def reset(self, names: Iterable[str]) -> Lab:
        """Give nodes factory-new disks: same machines, same keys, same addresses."""
        lab = self.load()
        nodes = [lab.node(name) for name in dict.fromkeys(names)]
        lab = self._forget_saved_states(lab, [node.name for node in nodes])
        for node in nodes:
            self._machines.stop(node.name)
            self._machines.discard_disk(node.name)
        return self._reboot_into(lab, nodes)

    def replace(self, name: str) -> Lab:
        """Put another machine in a node's place: new disk, new host key, new MAC addresses."""
        lab = self.load()
        old = lab.node(name)
        lab = self._forget_saved_states(lab, [name])
        self._machines.stop(name)
        self._machines.discard(name)
        ssh.make_key(ssh.host_key(self.layout, name), name)
        node = model.replacement(old)
        return self._reboot_into(lab.with_node(node), [node])

    def _forget_saved_states(self, lab: Lab, names: Sequence[str]) -> Lab:
        """Return the lab without what was saved of nodes, before their disks go."""
        for state in lab.saved:
            lost = [name for name in names if name in state.nodes]
            if lost:
                self.say(
                    f"the saved state {state.name!r} of {', '.join(lost)} is deleted with its disk"
                )
        lab = lab.without_saved_states_of(names)
        lab.save(self.layout.state)
        return lab

    def save(self, name: str) -> Lab:
        """Save all nodes as they are now, under a name, in place of what had that name.

        Raises:
            UnreachableError: a node does not answer, so it could not be waited for later.
        """
        model.check_state_name(name)
        lab = self.load()
        names = tuple(node.name for node in lab.nodes)
        self._require_all_up(lab)
        image.check_space(self.layout.root, len(names) * lab.memory_mib)
        lab = lab.without_saved_state(name)
        lab.save(self.layout.state)  # an interrupted save leaves no state of this name
        self._machines.save(names, name)
        saved_at = datetime.now(UTC).isoformat(timespec="seconds")
        lab = lab.with_saved_state(SavedState(name, saved_at, names))
        lab.save(self.layout.state)
        return lab

    def _require_all_up(self, lab: Lab) -> None:
        """Wait a while for nodes that boot, or are too busy to greet at once."""
        give_up = time.monotonic() + limit_s(UP_TIMEOUT_S, self.layout.root)
        while True:
            states = dict(zip(lab.nodes, self.states(lab), strict=True))
            late = [node for node, state in states.items() if state is not State.UP]
            if not late:
                return
            booting = all(states[node] is State.BOOTING for node in late)
            if not booting or time.monotonic() > give_up:
                raise UnreachableError(
                    f"{late[0].name} is {states[late[0]]}: only a lab whose nodes are all up can be"
                    " saved",
                    "Run: rdmaprov lab up, then this again.",
                )
            time.sleep(POLL_S)

    def restore(self, name: str, names: Iterable[str]) -> Lab:
        """Bring nodes back to a saved state, all of them if none is named.

        Raises:
            UsageError: there is no such state, or a node got a new disk since.
        """
        lab = self.load()
        saved = lab.saved_state(name)
        nodes = [lab.node(each) for each in dict.fromkeys(names)] or list(lab.nodes)
        self._ensure_images(lab)
        lost = [
            node.name
            for node in nodes
            if node.name not in saved.nodes or not self._machines.has_disk(lab, node.name)
        ]
        if lost:
            others = [node.name for node in nodes if node.name not in lost]
            raise UsageError(
                f"the saved state {name!r} of {', '.join(lost)} no longer exists: its disk"
                " was replaced by a reset, a replacement or a new image",
                f"Without {', '.join(lost)}: rdmaprov lab restore {name} {' '.join(others)}"
                if others
                else f"To save the nodes as they are now: rdmaprov lab save {name}",
            )
        lab = self._machines.restore(lab, nodes, name)
        site.write(self.layout, lab)
        return lab

    def _reboot_into(self, lab: Lab, nodes: list[LabNode]) -> Lab:
        self._ensure_images(lab)
        lab = self._machines.boot(lab, nodes)
        site.write(self.layout, lab)
        return lab

    def reboot(self, name: str) -> Lab:
        """Reboot a node and wait until it answers; reset it if it does not shut down by itself."""
        lab = self.load()
        node = self.require_running(name)
        longest_s = limit_s(RESET_TIMEOUT_S, self.layout.root)
        if not monitor.reboot(name, self.layout.node(name), longest_s):
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
        return existed
