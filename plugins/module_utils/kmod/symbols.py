"""Functions of the kernel that runs and of its modules. Runs on the node."""

from __future__ import annotations

import re

from ..machine import Machine

FILE = "/proc/kallsyms"


def has_symbol(machine: Machine, name: str) -> bool | None:
    """Return whether the kernel or a module has a function; None if they do not tell.

    Raises:
        NodeError: the list is there and cannot be read.
    """

    def look() -> bool | None:
        text = machine.read(FILE)
        return bool(re.search(rf" {name}\b", text)) if text else None

    # The list has some 10 MB: a record gets the answer alone.
    found: bool | None = machine.ask(f"{FILE} has {name}", look)
    return found
