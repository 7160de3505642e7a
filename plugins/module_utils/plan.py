"""What a role would change on a node, and how. Runs on the node."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field

from .machine import Machine, NodeError

_NET = "/sys/class/net"
LINK_NOTE = "/run/rdmaprov/link-changes.json"
CONFIGURED = "configured"
RUNNING = "running"


class Refused(NodeError):
    """The node does not fit what the site says, or the site asks for what cannot be."""


class Unsupported(NodeError):
    """The node has a device of a kind that is not supported: what it needs is unknown."""


class NotYet(NodeError):
    """What a role needs is not there, and may come with an earlier role."""


@dataclass(frozen=True)
class Change:
    """One setting that is not what it must be.

    Args:
        layer: "configured" (what a boot reads) or "running" (what is in force now).
        device: what has the setting: a network device, a file, a kernel module.
    """

    layer: str
    device: str
    setting: str
    seen: str
    wanted: str


@dataclass(frozen=True)
class Step:
    """Something to do, and the change that it makes.

    Args:
        change: None for what only has to follow earlier steps, such as a daemon's reload.
        undo: commands that revert it, for a change on the management path.
        diff: file's text before and after, as Ansible's --diff shows it.
        argv: the program's command line, if the step is a program's run.
    """

    change: Change | None
    do: Callable[[], None]
    undo: list[list[str]] = field(default_factory=list)
    diff: dict[str, str] | None = None
    argv: list[str] = field(default_factory=list)


class Plan:
    """The steps from what a node is to what it must be, in their order.

    `reboot` has the reasons that require a reboot once the steps are done; `guarded` the
    network devices on the management path that steps touch; `interrupts` what steps do to traffic,
    and for about how long; `notes` what was chosen, and why; `warnings` what works against the role
    and no run of it changes; `is_long` whether a step may take minutes or hours: packages, modules,
    an initramfs, firmware, an image.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.steps: list[Step] = []
        self.reboot: list[str] = []
        self.guarded: list[str] = []
        self.interrupts: list[str] = []
        self.notes: list[str] = []
        self.warnings: list[str] = []
        self.is_long = False

    def add(
        self, change: Change, do: Callable[[], None], undo: list[list[str]] | None = None
    ) -> None:
        """Add a step."""
        self._append(Step(change, do, undo or []))

    def interrupt(self, what: str, effect: str, lasts: str) -> None:
        """Say that a step interrupts traffic.

        Args:
            what: the step, such as "ens1 PFC".
        """
        text = f"{what}: {effect}, {lasts}"
        if text not in self.interrupts:
            self.interrupts.append(text)

    def file(self, path: str, text: str, mode: int = 0o644, change: Change | None = None) -> bool:
        """Have a file of root's with this text and mode; return whether that is a change.

        Args:
            change: how to call it, where the file's name and "absent" or "different" say too
                little.
        """
        if self.machine.stands(path, text, mode):
            return False
        before = self.machine.read(path)
        setting, seen, wanted = "content", "different", "as the site states"
        if before is None:
            seen, wanted = "absent", "present"
        elif before == text:
            setting, change = "access", None
            seen, wanted = str(self.machine.access(path)), str(self.machine.own(mode))
        diff = {"before_header": path, "after_header": path, "before": before or "", "after": text}
        self.steps.append(
            Step(
                change or Change(CONFIGURED, path, setting, seen, wanted),
                lambda: self.machine.write(path, text, mode),
                [],
                diff,
            )
        )
        return True

    def absent(self, path: str) -> bool:
        """Have no such file; return whether that is a change."""
        before = self.machine.read(path)
        if before is None:
            return False
        change = Change(CONFIGURED, path, "content", "present", "absent")
        diff = {"before_header": path, "after_header": path, "before": before, "after": ""}
        self.steps.append(Step(change, lambda: self.machine.remove(path), [], diff))
        return True

    def kernel_value(self, path: str, wanted: str, device: str, setting: str) -> bool:
        """Have a value in a file of the kernel's; return whether that is a change.

        Raises:
            NotYet: the kernel has no such file.
        """
        if self.machine.is_image:
            return False
        seen = self.machine.value(path)
        if seen is None:
            raise NotYet(f"{device}: there is no {path}")
        if seen.split() == wanted.split():
            return False
        change = Change(RUNNING, device, setting, seen, wanted)
        self.add(change, lambda: self.machine.set(path, wanted))
        return True

    def command(self, change: Change, argv: list[str], undo: list[list[str]] | None = None) -> None:
        """Add a step that is a program's run."""
        self._append(Step(change, lambda: _run(self.machine, argv), undo or [], argv=argv))

    def then(self, argv: list[str]) -> None:
        """Run a program after the steps before, for them to take effect."""
        self._append(Step(None, lambda: _run(self.machine, argv), argv=argv))

    def _append(self, step: Step) -> None:
        """Add a step, unless it is for a machine that runs and this is an image."""
        if not self.machine.is_image or (step.change and step.change.layer == CONFIGURED):
            self.steps.append(step)

    def changes(self) -> list[dict[str, str]]:
        """Return the changes as plain data."""
        return [asdict(step.change) for step in self.steps if step.change is not None]

    def diffs(self) -> list[dict[str, str]]:
        """Return the files' texts before and after, with escapes for what is not UTF-8."""
        return [
            {name: text.encode("utf-8", "backslashreplace").decode() for name, text in diff.items()}
            for diff in (step.diff for step in self.steps)
            if diff is not None
        ]


def with_the_first() -> None:
    """Do nothing: for a change that an earlier step makes along with its own."""


def _run(machine: Machine, argv: list[str]) -> None:
    machine.run(argv)


def make(machine: Machine, step: Step) -> None:
    """Make one step; whoever keeps what the change replaces is told before."""
    if machine.note is not None:
        machine.note(step)
    step.do()


def link_changes(machine: Machine) -> dict[str, int]:
    """Return how often the link of each network device with hardware changed since the boot."""
    found = {}
    for netdev in machine.names(_NET):
        text = machine.value(f"{_NET}/{netdev}/carrier_changes")
        if text and text.isdigit() and machine.exists(f"{_NET}/{netdev}/device"):
            found[netdev] = int(text)
    return found


def note_links(machine: Machine, before: dict[str, int]) -> None:
    """Add the changes of links since `before` to the note of this boot, for validate to subtract.

    Drivers take links down for settings (PFC, MTU, rings), which is no fault of a cable. At a
    boot the counters begin anew, and so does the note.
    """
    boot = machine.value("/proc/sys/kernel/random/boot_id") if before else None
    if not boot:
        return
    try:
        known = json.loads(machine.read(LINK_NOTE) or "{}")
    except ValueError:
        known = {}
    is_ours = isinstance(known, dict) and known.get("boot_id") == boot
    own = known.get("changes", {}) if is_ours else {}
    after = link_changes(machine)
    for netdev in before.keys() & after.keys():
        if after[netdev] > before[netdev]:
            own[netdev] = own.get(netdev, 0) + after[netdev] - before[netdev]
    text = json.dumps({"boot_id": boot, "changes": own}, sort_keys=True) + "\n"
    if text != machine.read(LINK_NOTE):
        Machine(machine.root).write(LINK_NOTE, text)


def carry_out(plan: Plan, again: Callable[[], Plan]) -> Plan:
    """Make a plan's steps, and return the next plan, which has none.

    Raises:
        NodeError: as the steps do, and if a setting is not in effect after it was set.
    """
    before = link_changes(plan.machine) if plan.steps else {}
    try:
        for step in plan.steps:
            make(plan.machine, step)
        after = again()
    finally:
        note_links(plan.machine, before)
    if after.steps:
        raise NodeError("set, but not in effect: " + changes_text(after.changes()))
    return after


def changes_text(changes: list[dict[str, str]]) -> str:
    """Return changes as one line, for a message."""
    return "; ".join(
        "{device}: {setting} ({layer}) is {seen}, expected {wanted}".format(**change)
        for change in changes
    )
