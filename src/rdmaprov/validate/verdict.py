"""The verdict on one setting of a node: passed, or one line that says what is wrong and the fix."""

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

import pytest

from rdmaprov.facts.errors import CouldNotTell
from rdmaprov.inventory import Node
from rdmaprov.problem import printable

# The three layers of a setting.
CONFIGURED = "configured"  # what its file says
RUNNING = "running"  # what the kernel and the devices do now
AFTER_REBOOT = "after reboot"  # what the next boot will set

_REMEDY = re.compile(r"\. (?=(?:Fix|Look), (?:from the controller|on [\w.-]+): |On the node: )")

_VERB = re.compile(r" (?:is|are)\b")


class Rejected(AssertionError):
    """A setting that is wrong; `finding` has its kind and part for results.json, or nothing."""

    def __init__(self, text: str, kind: str = "", part: str = "") -> None:
        super().__init__(text)
        self.finding = {"kind": kind, "part": part} if kind else {}


@dataclass(frozen=True)
class Setting:
    """One setting of a node, and how a value that the site does not state is reported."""

    node: Node
    # the part of it: a network device, an RDMA device, a NUMA node, a file; empty for the node
    # itself
    device: str
    # the setting's, such as "MTU"; with its verb where that is not "is", as in "PFC is on for
    # priority"
    name: str
    variable: str  # the site's variable that states it; empty for what is right on every node
    where: str  # the file or the command that it was read from
    truth: str = RUNNING
    fix: str = ""  # the command that repairs it; `rdmaprov apply` for this node if it is empty
    look: str = ""  # the command that shows more, where no command repairs it
    kind: str = ""  # of the finding, if there is one of that kind (docs/findings.md)

    def require(self, seen: object, wanted: object) -> None:
        """Fail the test unless the value that was seen is the wanted one."""
        __tracebackhide__ = True
        if seen != wanted:
            self.reject(seen, wanted)

    def reject(self, seen: object, wanted: object) -> NoReturn:
        """Fail the test."""
        __tracebackhide__ = True
        raise Rejected(self.text(seen, wanted), self.kind, self.device)

    def text(self, seen: object, wanted: object) -> str:
        """Return one line: what is seen and expected, by which variable, where it was read, a fix.

        >>> Setting(node, "ens1", "MTU", "fabric_mtu_bytes", "ip link").text(1500, 9000)
        'gpu07 ens1: running: MTU is 1500, expected 9000 (fabric_mtu_bytes; read: ip link). \
Fix, from the controller: rdmaprov apply inventory/prod --limit gpu07'
        """
        subject = f"{self.node.name} {self.device}".rstrip()
        places = "; ".join(filter(None, (self.variable, f"read: {self.where}")))
        return printable(
            f"{subject}: {self.truth}: {self._phrase} {_words(seen)}, expected {_words(wanted)} "
            f"({places}). {self._remedy}"
        )

    @property
    def _phrase(self) -> str:
        return self.name if _VERB.search(self.name) else f"{self.name} is"

    @property
    def _remedy(self) -> str:
        kind = "Look" if self.look else "Fix"
        command = self.look or self.fix or rdmaprov("apply", self.node)
        controllers = command.startswith("rdmaprov ")
        place = "from the controller" if controllers else f"on {self.node.name}"
        return f"{kind}, {place}: {command}"


def rdmaprov(verb: str, *nodes: Node) -> str:
    """Return the command line of a verb for some of the site's nodes, for the controller."""
    site = os.environ.get("RDMAPROV_INVENTORY", "SITE")
    return f"rdmaprov {verb} {shlex.quote(site)} --limit {','.join(node.name for node in nodes)}"


def reboot(node: Node) -> str:
    """Return the command line that reboots a node that requires it, and verifies it."""
    return f"{rdmaprov('apply', node)} --reboot if-needed"


def split_remedy(message: str) -> tuple[str, str]:
    """Return what is wrong and the remedy, of a message of the suite; the remedy may be empty."""
    parts = _REMEDY.split(message, maxsplit=1)
    return parts[0], parts[1] if len(parts) > 1 else ""


def settle(failures: Sequence[str], unknown: Sequence[str]) -> None:
    """Fail a test about many nodes with a line for each failure; else raise what is unknown.

    Raises:
        CouldNotTell: nothing failed, and something is unknown.
    """
    __tracebackhide__ = True
    if failures:
        raise AssertionError("\n".join([*failures, *unknown]))
    if unknown:
        raise CouldNotTell("; ".join(unknown))


def not_applicable(why: str) -> NoReturn:
    """Skip the test, with a reason."""
    pytest.skip(why)


def needs_roce(node: Node, what: str) -> None:
    """Skip the test on InfiniBand."""
    if node.get("fabric_kind") != "roce":
        not_applicable(f"fabric_kind: infiniband, where {what} does not apply")


def needs_infiniband(node: Node, what: str) -> None:
    """Skip the test on RoCE."""
    if node.get("fabric_kind") != "infiniband":
        not_applicable(f"fabric_kind: roce, which has no {what}")


def needs_ipoib(node: Node) -> None:
    """Skip the test of a network device where the site does not use IPoIB's."""
    if not node.uses_netdevs:
        not_applicable("fabric_ipoib: false, so the network device is not used")


def _words(value: object) -> str:
    if value is None:
        return "absent"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, (list, tuple, set, frozenset)):
        return ", ".join(_words(each) for each in value) or "none"
    return str(value) if str(value) else "empty"


def numbers(values: Mapping[object, object]) -> dict[int, int]:
    """Return a map of numbers; a site's YAML and templates may have them as texts."""
    return {int(str(key)): int(str(value)) for key, value in values.items()}
