"""Which nodes of a team send how much to which, over which rails."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from tests.madeup.condition import Floats, Ints
from tests.madeup.network import Flows


@dataclass(frozen=True)
class Team:
    """Ranks that take part in a collective; `rails` has those that NCCL found on each node."""

    nodes: tuple[int, ...]
    gpus: tuple[int, ...]
    rails: tuple[tuple[int, ...], ...]

    @property
    def ranks(self) -> int:
        return len(self.nodes) * len(self.gpus)

    @property
    def channels(self) -> int:
        """Return how many rails each node uses: NCCL takes the least of all nodes."""
        return min(len(rails) for rails in self.rails)


def team_flows(team: Team, number: int, collective: str, algorithm: str) -> Flows:
    """Return the flows between a team's nodes, over all its channels."""
    if collective == "all_to_all":
        source, target, share = _everyone(team)
    elif algorithm == "COLLNET_DIRECT":
        # Up to the switch and down again, once: what a neighbour would take.
        source = np.asarray(team.nodes, np.int64)
        target, share = np.roll(source, -1), np.ones(len(source))
    elif collective == "all_reduce" and algorithm != "RING":
        source, target, share = _tree_ends(team)
    else:
        whole = (2 if collective == "all_reduce" else 1) * (team.ranks - 1) / team.ranks
        nodes = np.asarray(team.nodes, np.int64)
        source, target = nodes, np.roll(nodes, -1)
        share = np.full(len(nodes), whole)
    return _over_rails(team, number, source, target, share)


def _over_rails(team: Team, number: int, source: Ints, target: Ints, share: Floats) -> Flows:
    channels = team.channels
    place = {node: at for at, node in enumerate(team.nodes)}
    rails = np.asarray([own[:channels] for own in team.rails], np.int64)
    outs = rails[[place[int(node)] for node in source]]
    intos = rails[[place[int(node)] for node in target]]
    many = len(source) * channels
    return Flows(
        np.repeat(source, channels),
        np.repeat(target, channels),
        outs.ravel(),
        intos.ravel(),
        np.repeat(share / channels, channels),
        np.full(many, number, np.int64),
    )


def _everyone(team: Team) -> tuple[Ints, Ints, Floats]:
    """Return each node with each other one, and what one sends another in an all-to-all."""
    nodes = np.asarray(team.nodes, np.int64)
    source, target = (each.ravel() for each in np.meshgrid(nodes, nodes, indexing="ij"))
    other = source != target
    return source[other], target[other], np.full(int(other.sum()), len(team.gpus) / len(team.nodes))


def _tree_ends(team: Team) -> tuple[Ints, Ints, Floats]:
    """Return the edges of a double binary tree, both ways, with half of the message on each."""
    many = len(team.nodes)
    edges = [(child, parent) for child, parent in enumerate(parents(many)) if parent >= 0]
    # The second tree is the first one mirrored (an even number) or shifted: NCCL, graph/trees.cc.
    turned = (lambda at: many - 1 - at) if many % 2 == 0 else (lambda at: (at + 1) % many)
    edges += [(turned(child), turned(parent)) for child, parent in edges]
    nodes = np.asarray(team.nodes, np.int64)
    child = nodes[[one for one, _ in edges]]
    parent = nodes[[other for _, other in edges]]
    source, target = np.concatenate([child, parent]), np.concatenate([parent, child])
    return source, target, np.full(len(source), 0.5)


def parents(many: int) -> list[int]:
    """Return each node's parent in NCCL's binary tree, -1 for the root (graph/trees.cc)."""
    found = []
    for node in range(many):
        bit = 1
        while bit < many and not node & bit:
            bit <<= 1
        up = (node ^ bit) | (bit << 1)
        if node == 0:
            found.append(-1)
            continue
        found.append(up if up < many else node ^ bit)
    return found


def environment_rails(
    allowed: Sequence[int], names: Sequence[str], environment: Mapping[str, str]
) -> tuple[int, ...]:
    """Return the rails that NCCL_IB_HCA leaves of those that have a link."""
    wanted = environment.get("NCCL_IB_HCA", "")
    if not wanted:
        return tuple(allowed)
    exact, away = wanted.startswith("="), wanted.startswith("^")
    words = [word.partition(":")[0] for word in wanted.lstrip("=^").split(",")]
    matches = [
        any(names[rail] == word if exact else names[rail].startswith(word) for word in words)
        for rail in allowed
    ]
    return tuple(rail for rail, hit in zip(allowed, matches, strict=True) if hit != away)
