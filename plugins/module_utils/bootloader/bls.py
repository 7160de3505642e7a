"""Boot entries of their own (Red Hat's family): /boot/loader/entries, which grubby edits."""

from __future__ import annotations

from ..machine import Machine
from ..plan import CONFIGURED, Change, Plan, Refused
from .line import Owned

ENTRIES = "/boot/loader/entries"
GRUBENV = "/boot/grub2/grubenv"


class Bls:
    """A node that starts by boot entries.

    They have one line for everybody's arguments. A mark of ours says that those of a role's names
    are the role's; it is there before the first one is changed, and until the last one is gone.
    """

    @staticmethod
    def runs(machine: Machine) -> bool:
        """Return whether the node starts that way."""
        return bool(_entries(machine)) and machine.has("grubby")

    @staticmethod
    def arguments(plan: Plan, owned: Owned) -> None:
        """Have every kernel's entry with the arguments."""
        mark = f"/var/lib/rdmaprov/kernel-arguments-{owned.owner}"
        found = {path: owned.of(_options(plan.machine, path)) for path in _entries(plan.machine)}
        if set(found.values()) == {owned.wanted}:
            if not owned.wanted:
                plan.absent(mark)
            return
        _refuse_others(plan.machine, mark, found, owned)
        plan.file(mark, f"{' '.join(owned.names)}\n")
        seen = " | ".join(sorted({" ".join(words) for words in found.values()}))
        wanted = " ".join(owned.wanted)
        change = Change(CONFIGURED, ENTRIES, "kernel arguments", seen or "none", wanted or "none")
        edit = ["grubby", "--update-kernel=ALL"]
        remove = [*edit, f"--remove-args={' '.join(owned.names)}"]
        if owned.wanted:
            if any(found.values()):
                plan.then(remove)
            plan.command(change, [*edit, f"--args={wanted}"])
        else:
            plan.command(change, remove)
            plan.absent(mark)


def _refuse_others(
    machine: Machine, mark: str, found: dict[str, tuple[str, ...]], owned: Owned
) -> None:
    if machine.exists(mark):
        return
    for path, words in found.items():
        if words:
            raise Refused(
                "{} gives the kernel {}, expected {}: remove it by grubby --update-kernel=ALL "
                "--remove-args, the site sets it".format(
                    path, " ".join(words), " ".join(owned.wanted) or "none"
                )
            )


def _entries(machine: Machine) -> list[str]:
    return [
        f"{ENTRIES}/{name}"
        for name in machine.names(ENTRIES)
        if name.endswith(".conf") and "-0-rescue" not in name
    ]


def _options(machine: Machine, path: str) -> str:
    """Return an entry's arguments; older ones have them in the environment of GRUB."""
    lines = (machine.read(path) or "").splitlines()
    options = " ".join(line[len("options") :] for line in lines if line.startswith("options"))
    for line in (machine.read(GRUBENV) or "").splitlines():
        name, _, value = line.partition("=")
        if name == "kernelopts":
            options = options.replace("$kernelopts", value)
    return options
