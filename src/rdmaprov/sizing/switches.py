"""The switches and cables of a fleet's fabric: rails as planes of their own, or as one tree.

A fat tree has up to three levels of equal switches, each connected to each one above it in its part
of the tree by equally many cables. Then each path carries an equal share, and NVIDIA's own designs
are cabled so: 24 leaves of 64 ports need 12 spines by their ports alone, and have 16, as 12 do not
divide 32 uplinks (DGX SuperPOD H100 reference architecture, network fabrics, table 4). Three levels
are pods that cores join, as in M. Al-Fares and others, A Scalable, Commodity Data Center Network
Architecture, SIGCOMM 2008.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

from rdmaprov.bandwidth.fabric import MAX_NODES
from rdmaprov.errors import UsageError
from rdmaprov.sizing.model import number_row, remark_row

# Arista's 7816 has 576 ports of 800G, the most that one switch had when this was written.
MAX_PORTS = 576
_MAX_RAILS = 256
_MAX_LINK_GBPS = 1600
_MAX_OVERSUBSCRIPTION = 100


@dataclass(frozen=True)
class FleetPorts:
    """What a fabric must connect, and of what it is built.

    Args:
        link_gbps: of each port, in Gb/s.
        ports: of each switch, of the same rate.
        oversubscription: ports of a leaf to nodes, by those to spines.
        planes: fabrics that share no switch; 0: one for each rail.
    """

    nodes: int
    rails: int
    link_gbps: float
    ports: int
    oversubscription: Fraction = Fraction(1)
    planes: int = 0

    @property
    def separate(self) -> int:
        """Return the number of planes."""
        return self.planes or self.rails

    def tree(self, planes: int) -> FatTree:
        """Return all switches of that many planes.

        Raises:
            NoFatTreeError: three levels do not connect the nodes.
        """
        one = fat_tree(self.nodes * self.rails // planes, self.ports, self.oversubscription)
        return one.times(planes)


def parse_ratio(text: str) -> Fraction:
    """Return the oversubscription that a text such as `2`, `1.5` or `17:15` means.

    Raises:
        NoFatTreeError: it means none.
    """
    found = re.fullmatch(r"(\d{1,4}(?:\.\d{1,6})?)(?::(\d{1,4}))?", text.strip())
    below = Fraction(found[2] or 1) if found else Fraction(0)
    ratio = Fraction(found[1]) / below if found and below else Fraction(0)
    if not 1 <= ratio <= _MAX_OVERSUBSCRIPTION:
        raise NoFatTreeError(
            f"--oversubscription {text!r} is not a ratio from 1 to {_MAX_OVERSUBSCRIPTION}",
            "Pass a leaf's ports to nodes by its ports to spines, such as 2 or 17:15.",
        )
    return ratio


def check_ports(wanted: FleetPorts) -> FleetPorts:
    """Return what is wanted if its numbers are possible.

    Raises:
        NoFatTreeError: a number is out of its range.
    """
    for option, value, low, high in (
        ("--nodes", wanted.nodes, 2, MAX_NODES),
        ("--rails", wanted.rails, 1, _MAX_RAILS),
        ("--link-gbps", wanted.link_gbps, 1, _MAX_LINK_GBPS),
        ("--ports", wanted.ports, 2, MAX_PORTS),
    ):
        if not low <= value <= high:
            message = f"{option} must be from {low} to {high}, not {value:g}"
            raise NoFatTreeError(message, f"Pass {option} with a number from {low} to {high}.")
    if wanted.planes < 0 or wanted.rails % wanted.separate:
        raise NoFatTreeError(
            f"--planes {wanted.planes} does not divide --rails {wanted.rails}",
            "Pass 1 for one tree of all rails, or leave it out for one plane for each rail.",
        )
    return wanted


def bisection_gbps(tree: FatTree, link_gbps: float) -> float:
    """Return what one half of the ports can send to the other, in one direction, in Gb/s."""
    return tree.crossing * link_gbps


def as_data(wanted: FleetPorts, tree: FatTree) -> dict[str, Any]:
    """Return the switches as JSON has them; TB/s are bytes, Tb/s are bits."""
    gbps = bisection_gbps(tree, wanted.link_gbps)
    return {
        "planes": wanted.separate,
        "levels": tree.levels,
        "endpoints": tree.endpoints,
        "leaf_down_ports": tree.leaf.down,
        "leaf_up_ports": tree.leaf.up,
        "leaves": tree.leaves,
        "spines": tree.spines,
        "cores": tree.cores,
        "switches": tree.switches,
        "cables": tree.cables,
        "bisection_tb_s": round(gbps / 8000, 6),
        "bisection_tbps": round(gbps / 1000, 6),
    }


def head(wanted: FleetPorts, tree: FatTree) -> str:
    """Return what is connected, by which switches."""
    planes = wanted.separate
    each = "one tree of all rails" if planes == 1 else f"{planes} separate planes"
    return (
        f"{wanted.nodes:,} nodes × {wanted.rails} rails of {wanted.link_gbps:g}G on "
        f"{wanted.ports}-port switches: {each}, {_plural(tree.levels, 'level')}"
    )


def rows(wanted: FleetPorts, tree: FatTree) -> Iterator[str]:
    """Yield the switches, each number with how it follows."""
    ports = f"{tree.endpoints:,}"
    yield number_row("ports of nodes", ports, f"{wanted.nodes:,} × {wanted.rails}")
    yield from _tiers(wanted, tree, wanted.separate)
    links = f"{tree.endpoints:,} to nodes"
    links += f" + {tree.leaf_cables:,} from leaves to spines" if tree.levels > 1 else ""
    links += f" + {tree.core_cables:,} from spines to cores" if tree.cores else ""
    yield number_row("cables", f"{tree.cables:,}", links)
    gbps = bisection_gbps(tree, wanted.link_gbps)
    yield number_row(
        "bisection",
        f"{gbps / 8000:.4g} TB/s ({gbps / 1000:.4g} Tb/s)",
        f"{2 * tree.crossing:,.0f} links × {wanted.link_gbps:g} Gb/s ÷ 2: what half of the ports "
        "can send to the other half, in one direction",
    )


def _tiers(wanted: FleetPorts, tree: FatTree, planes: int) -> Iterator[str]:
    times = f" × {planes} planes" if planes > 1 else ""
    own = f"{tree.endpoints // planes:,}"
    if tree.levels == 1:
        yield number_row("switches", f"{tree.leaves:,}", f"1{times}, as {own} ports fit one switch")
        return
    leaf = tree.leaf
    yield number_row(
        "a leaf",
        f"{leaf.down} ports to nodes, {leaf.up} to spines: {float(leaf.down / leaf.up):.3g}:1, "
        f"and {float(wanted.oversubscription):.3g}:1 is allowed",
    )
    each = f"{own} ports ÷ {leaf.down}, rounded up{times}"
    yield number_row("leaves", f"{tree.leaves:,}", each)
    top = f"{wanted.ports} ports"
    if tree.cores:
        top = f"{wanted.ports // 2} ports, as the other half goes to cores"
    uplinks = f"{tree.leaf_cables:,} uplinks ÷ {top}"
    yield number_row("spines", f"{tree.spines:,}", f"{uplinks}, rounded up to equal shares")
    if tree.cores:
        uplinks = f"{tree.core_cables:,} uplinks ÷ {wanted.ports} ports"
        yield number_row("cores", f"{tree.cores:,}", f"{uplinks}, rounded up to equal shares")


def other_rows(wanted: FleetPorts, tree: FatTree) -> Iterator[str]:
    """Yield what the other arrangement of the rails takes, and why one port count is not enough."""
    other = 1 if wanted.separate > 1 else wanted.rails
    if wanted.rails == 1:
        return
    name = f"as {_name(other)}"
    try:
        found = wanted.tree(other)
    except NoFatTreeError as error:
        yield number_row(name, error.message)
        return
    counts = (found.levels, found.leaves, found.spines, found.cores)
    if counts == (tree.levels, tree.leaves, tree.spines, tree.cores):
        yield number_row(name, "the same switches")
        return
    text = f"{_plural(found.levels, 'level')}, {_plural(found.leaves, 'leaf')}"
    text += f", {_plural(found.spines, 'spine')}" if found.spines else ""
    text += f", {_plural(found.cores, 'core')}" if found.cores else ""
    yield number_row(name, f"{text}, {found.cables:,} cables")
    if found.levels > tree.levels == 2:
        yield remark_row(
            f"a spine reaches {wanted.ports} leaves at most, so one tree of two levels has "
            f"{wanted.ports * tree.leaf.down:,} ports; with planes, data changes its rail over "
            "NVLink"
        )


def _name(planes: int) -> str:
    return "one tree of all rails" if planes == 1 else f"{planes} planes, one for each rail"


def _plural(number: int, noun: str) -> str:
    many = {"leaf": "leaves"}.get(noun, f"{noun}s")
    return f"{number:,} {noun if number == 1 else many}"


class NoFatTreeError(UsageError):
    """Numbers of which no fat tree can be built."""


@dataclass(frozen=True)
class Tier:
    """How a switch below the top divides its ports: `down` to below, `up` to above."""

    down: int
    up: int


@dataclass(frozen=True)
class FatTree:
    """The switches and cables of one tree, or of several that are alike and separate.

    Args:
        levels: of switches: 1 is a single switch.
        leaf: how a leaf divides its ports; a single switch has all of them down.
    """

    endpoints: int
    levels: int
    leaves: int
    spines: int
    cores: int
    leaf: Tier
    leaf_cables: int
    core_cables: int

    @property
    def switches(self) -> int:
        """Return the number of switches."""
        return self.leaves + self.spines + self.cores

    @property
    def cables(self) -> int:
        """Return the number of cables, with those of nodes."""
        return self.endpoints + self.leaf_cables + self.core_cables

    @property
    def crossing(self) -> float:
        """Return how many links' worth of data one half of the endpoints can send to the other.

        In one direction, where the halves are chosen so that all of it crosses the top.
        """
        narrowest = [self.endpoints]
        narrowest += [self.leaf_cables] if self.levels > 1 else []
        narrowest += [self.core_cables] if self.levels > 2 else []
        return min(narrowest) / 2

    def times(self, planes: int) -> FatTree:
        """Return that many of this tree, which share no switch."""
        return FatTree(
            self.endpoints * planes,
            self.levels,
            self.leaves * planes,
            self.spines * planes,
            self.cores * planes,
            self.leaf,
            self.leaf_cables * planes,
            self.core_cables * planes,
        )


def fat_tree(endpoints: int, ports: int, oversubscription: Fraction) -> FatTree:
    """Return the tree of the fewest levels, then switches, then cables.

    Args:
        oversubscription: ports of a leaf to nodes, by those to spines; never exceeded.

    Raises:
        NoFatTreeError: three levels do not have as many ports.
    """
    if endpoints <= ports:
        return FatTree(endpoints, 1, 1, 0, 0, Tier(ports, 0), 0, 0)
    for build in (_two_levels, _three_levels):
        found = [
            tree
            for leaf in _leaves(ports, oversubscription)
            for tree in build(endpoints, ports, leaf)
        ]
        if found:
            return min(found, key=lambda tree: (tree.switches, tree.cables))
    most = _most_endpoints(ports, oversubscription)
    raise NoFatTreeError(
        f"{endpoints:,} ports of nodes do not fit a fat tree of three levels of {ports}-port "
        f"switches, which has at most {most:,}",
        "Pass --ports of larger switches, more --planes, or a higher --oversubscription.",
    )


def _leaves(ports: int, oversubscription: Fraction) -> Iterator[Tier]:
    """Yield how a leaf can divide its ports: all of them, or some of them left free."""
    for down in range(ports - 1, 0, -1):
        up = math.ceil(down / oversubscription)
        if down + up <= ports:
            yield Tier(down, up)


def _two_levels(endpoints: int, ports: int, leaf: Tier) -> Iterator[FatTree]:
    leaves = math.ceil(endpoints / leaf.down)
    if spines := _equal_shares(leaves, leaf.up, ports):
        yield FatTree(endpoints, 2, leaves, spines, 0, leaf, leaves * leaf.up, 0)


def _three_levels(endpoints: int, ports: int, leaf: Tier) -> Iterator[FatTree]:
    """Yield trees of equal pods: leaves and spines that the cores join, spine by spine."""
    half = ports // 2
    leaves = math.ceil(endpoints / leaf.down)
    pods = math.ceil(leaves / half)
    in_pod = math.ceil(leaves / pods)
    spines = _equal_shares(in_pod, leaf.up, half)
    if not spines:
        return
    # Spines send up all that they receive from below: only leaves are oversubscribed.
    for up in range(in_pod * leaf.up // spines, half + 1):
        if cores := _equal_shares(pods, up, ports):
            yield FatTree(
                endpoints,
                3,
                leaves,
                pods * spines,
                spines * cores,
                leaf,
                leaves * leaf.up,
                pods * spines * up,
            )


def _equal_shares(below: int, uplinks: int, ports: int) -> int:
    """Return the fewest switches with room for all uplinks of those below, in equal shares.

    0: each switch below has too few uplinks to reach enough of them.
    """
    fitting = (above for above in _divisors(uplinks) if below * uplinks // above <= ports)
    return next(fitting, 0)


@lru_cache(maxsize=1024)
def _divisors(number: int) -> tuple[int, ...]:
    return tuple(each for each in range(1, number + 1) if number % each == 0)


def _most_endpoints(ports: int, oversubscription: Fraction) -> int:
    leaf = next(_leaves(ports, oversubscription), Tier(0, 0))
    return leaf.down * (ports // 2) * ports
