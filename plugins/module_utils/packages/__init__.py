"""The packages of a node, with whatever manages them. Runs on the node.

`of` returns the one that does: apt (Debian, Ubuntu) or dnf (the Red Hat family).
"""

from __future__ import annotations

from .apt import Apt
from .dnf import Dnf
from .manager import Manager, Offer, Package

__all__ = ["Manager", "Offer", "Package", "of"]

from ..machine import Machine
from ..plan import Refused


def of(machine: Machine) -> Manager:
    """Return the manager of the node's packages; raise Refused if it is none that is known here."""
    if machine.has("dpkg-query") and machine.has("apt-get"):
        return Apt(machine)
    if machine.has("rpm") and machine.has("dnf"):
        return Dnf(machine)
    raise Refused("neither apt-get nor dnf is installed: packages of this node cannot be managed")
