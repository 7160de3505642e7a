"""What a lab is: its description, as chosen once by `lab up` and kept in lab.json."""

from __future__ import annotations

import json
import secrets
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from rdmaprov.errors import RdmaprovError, UsageError
from rdmaprov.lab.accel import Accel

NODES_RANGE = range(2, 9)
RAILS_RANGE = range(1, 9)
MEMORY_RANGE_MIB = range(1024, 65537)
DEFAULT_NODES = 2
DEFAULT_RAILS = 2
DEFAULT_SUITE = "bookworm"
DEFAULT_MEMORY_MIB = 2048


@dataclass(frozen=True)
class Rail:
    """One RDMA port of a node: `rdma` is fixed by its number, `netdev` is what udev calls it."""

    number: int
    mac: str
    netdev: str | None = None

    @property
    def rdma(self) -> str:
        """The RDMA device on top of the NIC."""
        return f"mlx5_{self.number}"


@dataclass(frozen=True)
class Node:
    """A virtual machine: its name stays when it is replaced, its port and MACs may change."""

    name: str
    port: int
    management_mac: str
    rails: tuple[Rail, ...]

    def with_netdevs(self, netdevs: dict[int, str]) -> Node:
        """Return the node with the names its kernel gave to the rails."""
        return replace(
            self, rails=tuple(replace(r, netdev=netdevs.get(r.number)) for r in self.rails)
        )


@dataclass(frozen=True)
class Lab:
    """All of a lab that a later command needs to know."""

    suite: str
    memory_mib: int
    accel: Accel
    image: str
    torch: str
    site: str
    nodes: tuple[Node, ...] = field(default_factory=tuple)

    def node(self, name: str) -> Node:
        """Return the node of that name.

        Raises:
            UsageError: there is none.

        """
        for node in self.nodes:
            if node.name == name:
                return node
        raise UsageError(
            f"the lab has no node {name!r}",
            "Its nodes are: " + ", ".join(node.name for node in self.nodes),
        )

    def with_node(self, changed: Node) -> Lab:
        """Return the lab with the node of the same name replaced."""
        nodes = tuple(changed if node.name == changed.name else node for node in self.nodes)
        return replace(self, nodes=nodes)

    def save(self, path: Path) -> None:
        """Write the description so that a reader sees the old or the new one, never half."""
        new = path.with_suffix(".new")
        new.write_text(json.dumps(asdict(self), indent=2))
        new.replace(path)

    @classmethod
    def load(cls, path: Path) -> Lab | None:
        """Return the lab described in path, None where there is none.

        Raises:
            RdmaprovError: the file is damaged.

        """
        try:
            raw = json.loads(path.read_text())
            nodes = tuple(
                Node(**{**node, "rails": tuple(Rail(**rail) for rail in node["rails"])})
                for node in raw.pop("nodes")
            )
            return cls(**{**raw, "accel": Accel(raw["accel"]), "nodes": nodes})
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise RdmaprovError(
                f"{path} is damaged: {error}", "Run: rdmaprov lab down, then rdmaprov lab up"
            ) from error


def find_rail(node: Node, number: int) -> Rail:
    """Return a rail of the node.

    Raises:
        UsageError: the node has none of that number.

    """
    for rail in node.rails:
        if rail.number == number:
            return rail
    raise UsageError(
        f"{node.name} has no rail {number}", f"Its rails are 0 to {len(node.rails) - 1}."
    )


def random_mac() -> str:
    """Return a locally administered unicast address under QEMU's own prefix 52:54:00."""
    return "52:54:00:" + ":".join(f"{byte:02x}" for byte in secrets.token_bytes(3))


def new_node(name: str, port: int, rails: int) -> Node:
    """Return the description of a machine that was never there before."""
    return Node(
        name=name,
        port=port,
        management_mac=random_mac(),
        rails=tuple(Rail(number, random_mac()) for number in range(rails)),
    )


def check_range(option: str, value: int, allowed: range, unit: str = "") -> None:
    """Refuse a number outside of what the lab can make.

    Raises:
        UsageError: naming the option and what to write.

    """
    if value not in allowed:
        raise UsageError(
            f"{option} {value} is not possible",
            f"Write {option} {allowed.start} to {allowed.stop - 1}{unit}.",
        )
