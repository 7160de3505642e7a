"""What every manager of packages can do. Runs on the node."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass

from ..machine import Machine, NodeError
from ..plan import Refused

# How long another installation may hold the lock before that is an error.
LOCK_TIMEOUT_S = 60
# Drivers are compiled while their packages are installed.
INSTALL_TIMEOUT_S = 3600
# The vendor's package whose installation burns the NICs' firmware, and how long that may take
# besides: minutes for each card, one after the other.
UPDATER = "mlnx-fw-updater"
BURN_TIMEOUT_S = 3600


@dataclass(frozen=True)
class Package:
    """A package on the node."""

    name: str
    version: str
    whole: bool = True  # it was unpacked and configured to the end


@dataclass(frozen=True)
class Offer:
    """A version of a package that a repository has."""

    name: str
    version: str
    origin: str  # the repository, as the manager calls it


@dataclass(frozen=True)
class Repository:
    """A repository of ours."""

    url: str
    # file with the keys that may sign it; empty for a directory on the node that was verified when
    # it was unpacked
    key: str


class Manager(ABC):
    """The packages of a node. Methods that change them say so; all others only read."""

    repository_file = ""
    key_file = ""
    dkms_origin = ""  # of dkms, where the distribution does not have it

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.burns = False  # whether UPDATER may come along with what is installed

    @property
    def timeout_s(self) -> int:
        """Return how long an installation may take."""
        return INSTALL_TIMEOUT_S + (BURN_TIMEOUT_S if self.burns else 0)

    @abstractmethod
    def installed(self) -> dict[str, Package]:
        """Return the packages on the node, by name."""

    def interrupted(self) -> bool:
        """Return whether the manager was interrupted, and must finish first."""
        return False

    @abstractmethod
    def repair(self, names: list[str], drop: list[str], tolerate: bool) -> None:
        """Finish interrupted installations: a change.

        Args:
            drop: those of them that are to go in any case.
            tolerate: go on where one cannot be finished, for an installation that follows.
        """

    @abstractmethod
    def repository(self, repository: Repository) -> str:
        """Return the text of the file that describes a repository."""

    @abstractmethod
    def offers(self, repository: Repository, names: list[str]) -> list[Offer]:
        """Return what a repository has now of some packages; its index is read anew."""

    @abstractmethod
    def distribution(self, names: list[str]) -> list[Offer]:
        """Return what the node's other repositories have; their indexes are read anew."""

    @abstractmethod
    def lost_with(self, remove: list[str], install: list[Offer]) -> list[str]:
        """Return the packages that would go along with a change, beyond those to be removed."""

    @abstractmethod
    def change(self, remove: list[str], install: list[Offer]) -> None:
        """Remove packages first, then install versions of others: a change."""

    @abstractmethod
    def held(self) -> set[str]:
        """Return the packages that an upgrade leaves as they are."""

    @abstractmethod
    def hold(self, names: list[str]) -> None:
        """Have upgrades leave packages as they are: a change."""

    @abstractmethod
    def release(self, names: list[str]) -> None:
        """Have upgrades take packages again: a change."""

    @abstractmethod
    def headers(self, kernel: str) -> str:
        """Return the package that has what modules for a kernel are compiled with."""

    @abstractmethod
    def more_modules(self, kernel: str) -> str:
        """Return the package with a kernel's less common modules; empty if it has no such."""

    @abstractmethod
    def rdma_tools(self) -> list[str]:
        """Return the distribution's packages for RDMA."""


def burning(why: str) -> Refused:
    """Return the refusal of an installation that would burn firmware."""
    return Refused(
        f"{UPDATER} would be installed, too, and burns firmware on the node's NICs; "
        f"without it, the packages cannot be installed: {why}. Write ofed_firmware: update to have "
        "that, or an ofed_profile without it"
    )


def matches(version: str, wanted: str) -> bool:
    """Return whether a package's version is a build of the wanted one.

    `3.1.0-091513` is one of `3.1.0`, and `3.1.01` is none.
    """
    plain = version.rpartition(":")[2]
    return bool(re.match(re.escape(wanted) + r"($|[-.+~])", plain))


def one_line(error: str) -> str:
    """Return what a manager said in one line: its errors, or its last line."""
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    telling = [line for line in lines if re.match(r"(E|Error|dpkg|error|Err)\b", line)]
    return "; ".join((telling or lines[-1:])[:4])


def disk_full(said: str) -> NodeError | None:
    """Return the error of a full disk, if that is what a manager complains about."""
    full = (
        r"No space left on device|enough free space in (\S+?)\.?\s"
        r"|needs \S+ more space on the (\S+)"
    )
    found = re.search(full, said + "\n")
    if found is None:
        return None
    where = found.group(1) or found.group(2) or "the root file system"
    return NodeError(
        f"{where}: the disk is full, so packages cannot be installed. Free some space (run on the "
        "node: df -h). The next run repairs the interrupted installation"
    )
