"""What a node's boot loader gives the kernel, for the roles that own it. Runs on the node."""

from __future__ import annotations

import re
from typing import Protocol

from ..machine import Machine
from ..plan import NotYet, Plan
from .bls import Bls
from .grub import Grub
from .line import Owned

# Nothing that a shell, GRUB's own language or a boot entry would read as more than a word, but ";",
# which only Grub knows how to write.
_SAFE = re.compile(r"[A-Za-z0-9_.-]+(=[A-Za-z0-9_.,:;=-]+)?")


class BootLoader(Protocol):
    """One of the ways to give a kernel its arguments."""

    def arguments(self, plan: Plan, owned: Owned) -> None:
        """Add the steps by which the next boot's kernel gets exactly these arguments.

        Raises:
            Refused: somebody else gives it arguments of the same names.
        """


def arguments(plan: Plan, owner: str, names: tuple[str, ...], wanted: list[str]) -> None:
    """Have the kernel get these arguments at boot, and no others of these names.

    Publishes a reboot as long as the running kernel was started with others.

    Args:
        owner: the role; it alone has arguments of these names.
        names: such as ("hugepagesz", "hugepages").
        wanted: such as ["hugepagesz=1G", "hugepages=16"], in the order that the kernel needs.

    Raises:
        Refused: somebody else gives the kernel arguments of these names.
        NotYet: there are some to give or to remove, and no boot loader that is known.
    """
    owned = Owned(owner, names, tuple(wanted))
    unsafe = [word for word in wanted if not _SAFE.fullmatch(word) or not owned.of(word)]
    if unsafe:
        raise ValueError(f"not an argument of {owner}: {unsafe}")
    running = running_arguments(plan.machine, names)
    loader = _loader(plan.machine)
    if loader is not None:
        loader.arguments(plan, owned)
    elif wanted or running:
        raise NotYet("no supported boot loader (GRUB by grub-mkconfig or grubby)")
    if running != wanted:
        plan.reboot.append(
            "the running kernel has '{}', expected '{}' (/proc/cmdline)".format(
                " ".join(running), " ".join(wanted)
            )
        )


def takes_lists(machine: Machine) -> bool:
    """Return whether the boot loader gives the kernel an argument with ";"."""
    return isinstance(_loader(machine), Grub)


def running_arguments(machine: Machine, names: tuple[str, ...]) -> list[str]:
    """Return the arguments of these names that the running kernel was started with."""
    return list(Owned("", names, ()).of(machine.value("/proc/cmdline") or ""))


def _loader(machine: Machine) -> BootLoader | None:
    for loader in (Bls, Grub):
        if loader.runs(machine):
            return loader()
    return None
