"""GRUB as Debian and Ubuntu have it: /etc/default/grub.d, and a grub.cfg made from it.

grub-mkconfig writes grub.cfg in place, so a machine that fails meanwhile would not start. Here a
new file is made beside it, checked, and put in its place whole.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..machine import Machine, NodeError
from ..plan import CONFIGURED, Change, Plan, Refused
from .line import Owned

CONFIG = "/boot/grub/grub.cfg"
NEW = CONFIG + ".rdmaprov"
DEFAULTS = "/etc/default/grub"
DROP_INS = "/etc/default/grub.d"
# Else it would end a command of GRUB's. grub-mkconfig copies the line as it is.
_SEMICOLON = "\\;"
_MENUENTRY = re.compile(r"\s*menuentry\s")
_ID = re.compile(r"\$menuentry_id_option\s+'([^']*)'")
_LINUX = re.compile(r"\s*linux(?:16|efi)?\s+(\S+)\s*(.*)")
_VARIABLE = re.compile(r"\s*(?:export\s+)?GRUB_CMDLINE_LINUX\w*\+?=(.*)")


@dataclass(frozen=True)
class Entry:
    """A kernel that the menu offers."""

    id: str
    kernel: str
    line: str

    @property
    def root(self) -> str:
        """Return what the kernel mounts as /, empty if nothing says so."""
        return " ".join(Owned("", ("root",), ()).of(self.line))


class Grub:
    """A node that starts by a grub.cfg which grub-mkconfig makes."""

    @staticmethod
    def runs(machine: Machine) -> bool:
        """Return whether the node starts that way."""
        return machine.exists(CONFIG) and machine.has("grub-mkconfig")

    @staticmethod
    def arguments(plan: Plan, owned: Owned) -> None:
        """Have our drop-in, and a grub.cfg that carries what it says."""
        drop_in = f"{DROP_INS}/zz-rdmaprov-{owned.owner}.cfg"
        others = _others(plan.machine, owned, drop_in)
        # Not GRUB_CMDLINE_LINUX: so the recovery entries start without.
        text = (
            f"# Written by rdmaprov ({owned.owner}); changes here are lost.\n"
            'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT {}"\n'
        ).format(" ".join(owned.wanted).replace(";", _SEMICOLON))
        if owned.wanted and not others:
            plan.file(drop_in, text)
        else:
            plan.absent(drop_in)
        carried = {owned.of(entry.line) for entry in _normal(plan.machine.read(CONFIG) or "")}
        if carried == {owned.wanted} or not (carried or owned.wanted):
            plan.absent(NEW)  # of a run that was killed at its very end
            return
        seen = " | ".join(sorted(" ".join(words) for words in carried)) or "none"
        wanted = " ".join(owned.wanted) or "none"
        plan.add(
            Change(CONFIGURED, CONFIG, "kernel arguments", seen, wanted),
            lambda: regenerate(plan.machine, owned),
        )


def _others(machine: Machine, owned: Owned, drop_in: str) -> bool:
    """Return whether somebody else's file gives the kernel what is wanted."""
    paths = [f"{DROP_INS}/{name}" for name in machine.names(DROP_INS) if name.endswith(".cfg")]
    found: tuple[str, ...] = ()
    for path in [DEFAULTS, *paths]:
        if path == drop_in:
            continue
        for line in (machine.read(path) or "").splitlines():
            variable = _VARIABLE.match(line)
            text = re.sub("[\"']", " ", variable[1]) if variable else ""
            words = owned.of(text.replace(_SEMICOLON, ";"))
            found += words
            if words and found != owned.wanted[: len(found)]:
                raise Refused(
                    "{} sets {} for the kernel, expected {}: remove it there".format(
                        path, " ".join(words), " ".join(owned.wanted) or "none"
                    )
                )
    if found and found != owned.wanted:
        raise Refused(f"{DEFAULTS} has {' '.join(found)}, expected {' '.join(owned.wanted)}")
    return bool(found)


def entries(text: str) -> list[Entry]:
    """Return the kernels of a grub.cfg."""
    found = []
    name = ""
    for line in text.splitlines():
        if _MENUENTRY.match(line):
            known = _ID.search(line)
            name = known[1] if known else ""
        linux = _LINUX.match(line)
        if linux:
            found.append(Entry(name, linux[1], linux[2].replace(_SEMICOLON, ";")))
    return found


def _own_entries(text: str) -> list[Entry]:
    """Return the node's own kernels, as /etc/grub.d/10_linux names them, without recovery."""
    return [
        entry
        for entry in entries(text)
        if entry.id.startswith("gnulinux-") and "-recovery-" not in entry.id
    ]


def _roots(found: list[Entry]) -> list[str]:
    return sorted({entry.root for entry in found})


def _normal(text: str) -> list[Entry]:
    return _own_entries(text) or entries(text)


def regenerate(machine: Machine, owned: Owned) -> None:
    """Put a checked new grub.cfg in place of the old one, whole or not at all."""
    machine.run(["grub-mkconfig", "-o", machine.path(NEW)])
    if machine.has("grub-script-check"):
        machine.run(["grub-script-check", machine.path(NEW)])
    new = machine.read(NEW) or ""
    fault = _fault(machine, owned, machine.read(CONFIG) or "", new)
    if fault:
        raise NodeError(f"{CONFIG} is unchanged: the new one ({NEW}) is wrong: {fault}")
    machine.write(machine.real(CONFIG), new, machine.mode(CONFIG) or 0o600)
    machine.remove(NEW)


def _fault(machine: Machine, owned: Owned, old: str, new: str) -> str:
    """Return what would keep the node from starting as it does, empty if nothing."""
    found = _own_entries(new)
    if not found:
        return "it has no kernel of this system"
    kernels = machine.names("/boot")
    missing = [entry.kernel for entry in found if entry.kernel.rpartition("/")[2] not in kernels]
    if missing:
        return f"{missing[0]} is not in /boot"
    running = "vmlinuz-" + (machine.value("/proc/sys/kernel/osrelease") or "")
    if running in kernels and not any(entry.kernel.endswith(running) for entry in found):
        return f"the running kernel is missing ({running})"
    roots, before = _roots(found), _roots(_own_entries(old))
    if "" in roots or (before and roots != before):
        return f"the kernel gets {roots or 'no root='}, expected {before}"
    wrong = [entry.kernel for entry in found if owned.of(entry.line) != owned.wanted]
    if wrong:
        return (
            f"{wrong[0]} does not get '{' '.join(owned.wanted)}'; does a later file of "
            f"{DROP_INS} replace GRUB_CMDLINE_LINUX_DEFAULT and drop its value?"
        )
    return ""
