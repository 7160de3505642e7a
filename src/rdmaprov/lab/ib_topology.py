"""A rail-optimised InfiniBand fabric for ibsim: leaves for each rail, spines above all."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from rdmaprov.lab.model import check_range

NODES_RANGE = range(1, 1025)
RAILS_RANGE = range(1, 9)
PER_LEAF_RANGE = range(1, 65)
SPINES_RANGE = range(129)
CABLES_RANGE = range(1, 33)
# ibsim 0.10 knows no NDR: it would make it 4x SDR without a word.
RATE = "4xHDR"
RATE_GBPS = 200
_MOST_PORTS = 254  # of a switch (InfiniBand Architecture 1.5, 14.2.5.3)


@dataclass(frozen=True)
class Topology:
    """A fat tree of two levels: a leaf is of one rail, and has cables to all spines.

    Args:
        nodes: number of nodes, with one HCA for each rail.
        rails: number of rails.
        nodes_per_leaf: nodes that share the leaf of a rail.
        spines: number of spines; none for leaves that nothing connects.
        cables: cables from each leaf to each spine.

    """

    nodes: int = 16
    rails: int = 4
    nodes_per_leaf: int = 8
    spines: int = 4
    cables: int = 2

    def check(self) -> None:
        """Refuse what ibsim cannot make.

        Raises:
            UsageError: a number is out of its range.

        """
        pods = -(-self.nodes // max(1, self.nodes_per_leaf))
        for option, value, allowed in (
            ("--nodes", self.nodes, NODES_RANGE),
            ("--rails", self.rails, RAILS_RANGE),
            ("--nodes-per-leaf", self.nodes_per_leaf, PER_LEAF_RANGE),
            ("--spines", self.spines, SPINES_RANGE),
            ("--cables", self.cables, CABLES_RANGE),
            ("ports of a spine", pods * self.rails * self.cables, range(_MOST_PORTS + 1)),
            (
                "ports of a leaf",
                self.nodes_per_leaf + self.spines * self.cables,
                range(_MOST_PORTS + 1),
            ),
        ):
            check_range(option, value, allowed)


@dataclass
class FabricLink:
    """One cable, by the names and ports of its ends."""

    near: str
    near_port: int
    far: str
    far_port: int
    rate: str = RATE


@dataclass
class Net:
    """Switches and HCAs with their number of ports, and the cables between them."""

    switches: dict[str, int] = field(default_factory=dict)
    hcas: dict[str, int] = field(default_factory=dict)
    links: list[FabricLink] = field(default_factory=list)

    def link(self, name: str, port: int) -> FabricLink:
        """Return the cable at a port."""
        return next(
            each
            for each in self.links
            if (name, port) in ((each.near, each.near_port), (each.far, each.far_port))
        )

    def remove(self, name: str) -> None:
        """Remove a node with its cables."""
        self.switches.pop(name, None)
        self.hcas.pop(name, None)
        self.links = [each for each in self.links if name not in (each.near, each.far)]

    def text(self) -> str:
        """Return the fabric in the form of ibnetdiscover, which ibsim reads."""
        ids = {name: f"S-{0x100000 + i:016x}" for i, name in enumerate(self.switches)}
        ids |= {name: f"H-{0x300000 + i:016x}" for i, name in enumerate(self.hcas)}
        ends: dict[str, list[tuple[int, str, int, str]]] = defaultdict(list)
        for each in self.links:
            ends[each.near].append((each.near_port, each.far, each.far_port, each.rate))
            ends[each.far].append((each.far_port, each.near, each.near_port, each.rate))
        lines = []
        for name, ports in {**self.switches, **self.hcas}.items():
            kind = "Switch" if name in self.switches else "Ca"
            lines.append(f'{kind}\t{ports} "{ids[name]}"\t\t# "{name}"')
            for port, far, far_port, rate in sorted(ends[name]):
                lines.append(f'[{port}]\t"{ids[far]}"[{far_port}]\t\t# "{far}" lid 0 {rate}')
            lines.append("")
        return "\n".join(lines)


def pod_name(pod: int) -> str:
    """Return the name of a pod; they count from 1."""
    return f"p{pod}"


def leaf_name(pod: int | str, rail: int) -> str:
    """Return the name of a rail's leaf, by the number of its pod or by what stands for its name."""
    return f"leaf-{pod_name(pod) if isinstance(pod, int) else pod}-r{rail}"


def node_name(node: int) -> str:
    """Return the name of a node; they count from 1."""
    return f"node{node:03d}"


def device_name(rail: int) -> str:
    """Return the name of a rail's RDMA device."""
    return f"mlx5_{rail}"


def hca_name(node: int, rail: int) -> str:
    """Return the node description of an HCA, as rdma-ndd writes it."""
    return f"{node_name(node)} {device_name(rail)}"


def make(topology: Topology) -> Net:
    """Return the fabric: node n is at port n of its leaves, spines follow behind the nodes."""
    net = Net()
    per_leaf, cables = topology.nodes_per_leaf, topology.cables
    pods = -(-topology.nodes // per_leaf)
    leaves = [leaf_name(pod + 1, rail) for pod in range(pods) for rail in range(topology.rails)]
    net.switches = dict.fromkeys(leaves, per_leaf + topology.spines * cables)
    for node in range(topology.nodes):
        for rail in range(topology.rails):
            hca = hca_name(node + 1, rail)
            net.hcas[hca] = 1
            leaf = leaf_name(node // per_leaf + 1, rail)
            net.links.append(FabricLink(hca, 1, leaf, node % per_leaf + 1))
    for spine in range(topology.spines):
        name = f"spine-{spine + 1}"
        net.switches[name] = len(leaves) * cables
        for number, leaf in enumerate(leaves):
            for cable in range(cables):
                up = per_leaf + spine * cables + cable + 1
                net.links.append(FabricLink(leaf, up, name, number * cables + cable + 1))
    return net
