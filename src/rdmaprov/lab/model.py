"""What a lab is: its description, as chosen once by `lab up` and kept in lab.json."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from rdmaprov.errors import RdmaprovError, UsageError
from rdmaprov.lab.accel import Accel

NODES_RANGE = range(2, 9)
RAILS_RANGE = range(1, 9)
MEMORY_RANGE_MIB = range(1024, 65537)
STATE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}")
DEFAULT_NODES = 2
DEFAULT_RAILS = 2
DEFAULT_SUITE = "bookworm"
DEFAULT_MEMORY_MIB = 2048


@dataclass(frozen=True)
class LabRail:
    """One RDMA port of a node: `rdma` is fixed by its number, `netdev` is what udev calls it."""

    number: int
    mac: str
    netdev: str | None = None
    more_macs: tuple[str, ...] = ()  # of a bond's other NICs

    @property
    def rdma(self) -> str:
        """The RDMA device on top of the NIC, or of the bond."""
        return f"mlx5_{'bond_' if self.more_macs else ''}{self.number}"

    @property
    def macs(self) -> tuple[str, ...]:
        """The MAC addresses of its NICs."""
        return (self.mac, *self.more_macs)


@dataclass(frozen=True)
class LabNode:
    """A virtual machine: its name stays when it is replaced, its port and MACs may change."""

    name: str
    port: int
    management_mac: str
    rails: tuple[LabRail, ...]
    image: str = ""  # of a suite of its own; empty for the lab's

    def with_netdevs(self, netdevs: dict[int, str]) -> LabNode:
        """Return the node with the names its kernel gave to the rails."""
        return replace(
            self, rails=tuple(replace(r, netdev=netdevs.get(r.number)) for r in self.rails)
        )


@dataclass(frozen=True)
class SavedState:
    """A state of the nodes that `lab restore` brings back; it lies in the nodes' own disks."""

    name: str
    saved_at: str  # UTC, ISO 8601
    nodes: tuple[str, ...]  # those that still have the disk it was saved into


@dataclass(frozen=True)
class Lab:
    """All of a lab that a later command needs to know."""

    suite: str
    memory_mib: int
    accel: Accel
    image: str
    torch: str
    site: str
    nodes: tuple[LabNode, ...] = field(default_factory=tuple)
    saved: tuple[SavedState, ...] = ()
    shape: str | None = None

    def node(self, name: str) -> LabNode:
        """Return the node of that name; raise UsageError if there is none."""
        for node in self.nodes:
            if node.name == name:
                return node
        raise UsageError(
            f"the lab has no node {name!r}",
            "Its nodes are: " + ", ".join(node.name for node in self.nodes),
        )

    def image_of(self, name: str) -> str:
        """Return the key of the image that a node's disk lies on."""
        return self.node(name).image or self.image

    def with_node(self, changed: LabNode) -> Lab:
        """Return the lab with the node of the same name replaced."""
        nodes = tuple(changed if node.name == changed.name else node for node in self.nodes)
        return replace(self, nodes=nodes)

    def saved_state(self, name: str) -> SavedState:
        """Return the saved state of that name; raise UsageError if there is none."""
        for state in self.saved:
            if state.name == name:
                return state
        known = ", ".join(state.name for state in self.saved)
        raise UsageError(
            f"the lab has no saved state {name!r}",
            f"Its saved states are: {known}"
            if known
            else f"To save the nodes as they are now: rdmaprov lab save {name}",
        )

    def with_saved_state(self, state: SavedState) -> Lab:
        """Return the lab with a saved state more, in place of one of the same name."""
        return replace(self, saved=(*self.without_saved_state(state.name).saved, state))

    def without_saved_state(self, name: str) -> Lab:
        """Return the lab without the saved state of that name."""
        return replace(self, saved=tuple(each for each in self.saved if each.name != name))

    def without_saved_states_of(self, nodes: Iterable[str]) -> Lab:
        """Return the lab after nodes lost their disks, and with them what was saved of them."""
        gone = set(nodes)
        left = (
            replace(state, nodes=tuple(name for name in state.nodes if name not in gone))
            for state in self.saved
        )
        return replace(self, saved=tuple(state for state in left if state.nodes))

    def save(self, path: Path) -> None:
        """Write the description so that a reader sees the old or the new one, never half."""
        new = path.with_suffix(".new")
        new.write_text(json.dumps(asdict(self), indent=2))
        new.replace(path)

    @classmethod
    def load(cls, path: Path) -> Lab | None:
        """Return the lab of a file, None without one; raise RdmaprovError if it is damaged."""
        try:
            raw = json.loads(path.read_text())
            nodes = tuple(
                LabNode(**{**node, "rails": tuple(_rail(rail) for rail in node["rails"])})
                for node in raw.pop("nodes")
            )
            saved = tuple(
                SavedState(**{**state, "nodes": tuple(state["nodes"])})
                for state in raw.pop("saved", ())
            )
            return cls(**{**raw, "accel": Accel(raw["accel"]), "nodes": nodes, "saved": saved})
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise RdmaprovError(
                f"{path} is damaged: {error}", "Run: rdmaprov lab down, then rdmaprov lab up"
            ) from error


def _rail(raw: dict[str, Any]) -> LabRail:
    return LabRail(**{**raw, "more_macs": tuple(raw.get("more_macs", ()))})


def find_rail(node: LabNode, number: int) -> LabRail:
    """Return a rail of the node; raise UsageError if the node has none of that number."""
    for rail in node.rails:
        if rail.number == number:
            return rail
    raise UsageError(
        f"{node.name} has no rail {number}", f"Its rails are 0 to {len(node.rails) - 1}."
    )


def random_mac() -> str:
    """Return a locally administered unicast address under QEMU's own prefix 52:54:00."""
    return "52:54:00:" + ":".join(f"{byte:02x}" for byte in secrets.token_bytes(3))


def new_node(name: str, port: int, rails: int, nics: int = 1, image: str = "") -> LabNode:
    """Return the description of a machine that was never there before; nics: of each rail."""

    def new_rail(number: int) -> LabRail:
        mac, *more = (random_mac() for _ in range(nics))
        return LabRail(number, mac, more_macs=tuple(more))

    return LabNode(
        name=name,
        port=port,
        management_mac=random_mac(),
        rails=tuple(new_rail(number) for number in range(rails)),
        image=image,
    )


def replacement(old: LabNode) -> LabNode:
    """Return the description of another machine of the same kind in a node's place."""
    return new_node(old.name, old.port, len(old.rails), len(old.rails[0].macs), old.image)


def check_range(option: str, value: int, allowed: range, unit: str = "") -> None:
    """Raise UsageError for a number that the lab cannot make, with the option and what to write."""
    if value not in allowed:
        raise UsageError(
            f"{option} must be from {allowed.start} to {allowed.stop - 1}{unit}, not {value}",
            f"Pass {option} with a number in this range.",
        )


def check_state_name(name: str) -> None:
    """Raise UsageError for a name that is no identifier, with what it may be."""
    if not STATE_NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot name a saved state",
            "Use a letter, then at most 31 letters, digits, '_' or '-', such as 'factory'.",
        )
