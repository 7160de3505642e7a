"""The shapes of the lab: nodes as real fleets have them, made from the plain ones.

A shape is one file, lab/shapes/NAME.yml: what is done to a node before it gets to the site, and
what the site then says of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from rdmaprov.errors import UsageError
from rdmaprov.resources import data_dir

# Rail i of node n: one subnet for each rail, from the range set aside for benchmarks (RFC 2544).
_RAIL = {"netdev": "{netdev}", "address": "198.18.{rail}.{node}/24"}
_LIBRARY = "lib.sh"


@dataclass(frozen=True)
class Shape:
    """How the nodes of a lab differ from plain ones."""

    name: str = ""
    title: str = ""
    factory: str = ""  # a shell script that makes a plain node one of this shape, at its first boot
    nics: int = 1  # the NICs of each rail; more than one for a bond
    numa: int | None = None  # the NUMA node of all rails; None to spread them
    rails: int | None = None  # how many rails a node has, unless `lab up` is told
    # what the site says of each rail, with {netdev}, {rail} and {node} to be filled in; what has no
    # value is left out
    rail: Mapping[str, Any] = field(default_factory=lambda: dict(_RAIL))
    # what it says of the last one besides
    last_rail: Mapping[str, Any] = field(default_factory=dict)
    variables: Mapping[str, Any] = field(default_factory=dict)
    suite: str | None = None  # of Debian; None for the lab's

    def entries(self, node: int, netdevs: Sequence[str | None]) -> list[dict[str, Any]]:
        """Return the site's fabric_rails of a node.

        Args:
            netdevs: the network devices that its RDMA devices are on, by rail.
        """
        last = len(netdevs) - 1
        return [
            {
                name: value.format(netdev=netdev, rail=rail, node=node)
                if isinstance(value, str)
                else value
                for name, value in {**self.rail, **(self.last_rail if rail == last else {})}.items()
                if value is not None
            }
            for rail, netdev in enumerate(netdevs)
        ]

    @property
    def boots(self) -> int:
        """How many times a node with a new disk boots until it answers."""
        return 2 if self.factory else 1

    def script(self) -> str:
        """Return what a node runs at its first boot, empty for a plain one."""
        return (_directory() / _LIBRARY).read_text() + self.factory if self.factory else ""


PLAIN = Shape()


def find(name: str | None) -> Shape:
    """Return the shape of that name, the plain one for None; raise UsageError if there is none."""
    if name is None:
        return PLAIN
    if name not in catalogue():
        raise UsageError(f"there is no shape {name!r}", "The shapes are: " + ", ".join(catalogue()))
    return catalogue()[name]


def of_nodes(names: str | None, count: int) -> list[Shape]:
    """Return the shape of each node; they take those of the names in turn.

    Args:
        names: of shapes, with commas between them; None for plain nodes.

    Raises:
        UsageError: there is no such shape, or there are more shapes than nodes.
    """
    chosen = [find(name) for name in names.split(",")] if names is not None else [PLAIN]
    if len(chosen) > count:
        raise UsageError(
            f"--shape {names}: there are {len(chosen)} shapes and {count} nodes",
            f"Name at most {count} shapes, or pass --nodes {len(chosen)}.",
        )
    return [chosen[number % len(chosen)] for number in range(count)]


@cache
def catalogue() -> dict[str, Shape]:
    """Return all shapes by name."""
    return {path.stem: _read(path) for path in sorted(_directory().glob("*.yml"))}


def _directory() -> Path:
    return data_dir("lab") / "shapes"


def _read(path: Path) -> Shape:
    import yaml

    raw = yaml.safe_load(path.read_text())
    raw["rail"] = {**_RAIL, **raw.get("rail", {})}
    return Shape(name=path.stem, **raw)
