"""Switches and cables of a fat tree of up to three levels, all of equal switches.

Each switch is connected to each one above it in its part of the tree by equally many cables. Then
each path carries an equal share, and NVIDIA's own designs are cabled so: 24 leaves of 64 ports need
12 spines by their ports alone, and have 16, as 12 do not divide 32 uplinks (DGX SuperPOD H100
reference architecture, network fabrics, table 4). Three levels are pods that cores join, as in
M. Al-Fares and others, A Scalable, Commodity Data Center Network Architecture, SIGCOMM 2008.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from rdmaprov.errors import UsageError


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
