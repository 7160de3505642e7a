"""A rail-optimised InfiniBand fabric for ibsim: leaves for each rail, spines above all."""

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rdmaprov.lab.model import check_range

NODES_RANGE = range(1, 1025)
RAILS_RANGE = range(1, 9)
PER_LEAF_RANGE = range(1, 65)
SPINES_RANGE = range(129)
CABLES_RANGE = range(1, 33)
CORES_RANGE = range(65)
PLANES_RANGE = range(8)  # their numbers
# ibsim 0.10 knows no NDR: it would silently make it 4x SDR.
RATE = "4xHDR"
RATE_GBPS = 200
_MOST_PORTS = 254  # of a switch (InfiniBand Architecture 1.5, 14.2.5.3)
# Full membership of the default partition, which opensm gives every port: opensm(8), PARTITION
# CONFIGURATION.
_DEFAULT_KEY = "0xffff"
_HEADER = "---\n# Written by `rdmaprov lab subnet site`.\n"


@dataclass(frozen=True)
class Topology:
    """A fat tree: a leaf is of one rail, and has cables to all spines of its plane.

    With cores there are three levels: each pod has spines of its own, and each spine a cable to
    each core. Planes are subnets of their own: rail i is in plane i modulo their number.
    """

    nodes: int = 16  # number of nodes, with one HCA for each rail
    rails: int = 4
    nodes_per_leaf: int = 8  # nodes that share the leaf of a rail
    # number of spines of a plane, with cores of a pod; none for leaves that nothing connects
    spines: int = 4
    cables: int = 2
    cores: int = 0  # number of cores of a plane; none for two levels
    planes: int = 1

    @property
    def pods(self) -> int:
        """Return the number of groups of nodes that share leaves."""
        return -(-self.nodes // max(1, self.nodes_per_leaf))

    @property
    def is_plain(self) -> bool:
        """Return whether there are two levels and one plane, as the faults need."""
        return self.planes == 1 and not self.cores

    def spine_names(self) -> list[str]:
        """Return the names of all switches above the leaves."""
        return [name for plane in range(self.planes) for name in _above(self, plane)]

    def check(self) -> None:
        """Refuse what ibsim cannot make; raise UsageError if a number is out of its range."""
        below = self.rails if self.cores else self.pods * self.rails
        for option, value, allowed in (
            ("--nodes", self.nodes, NODES_RANGE),
            ("--rails", self.rails, RAILS_RANGE),
            ("--nodes-per-leaf", self.nodes_per_leaf, PER_LEAF_RANGE),
            ("--spines", self.spines, SPINES_RANGE),
            ("--cables", self.cables, CABLES_RANGE),
            ("--cores", self.cores, CORES_RANGE),
            ("--planes", self.planes, range(1, min(len(PLANES_RANGE), self.rails) + 1)),
            ("ports of a spine", below * self.cables + self.cores, range(_MOST_PORTS + 1)),
            ("ports of a core", self.pods * self.spines * bool(self.cores), range(_MOST_PORTS + 1)),
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
    per_leaf = topology.nodes_per_leaf
    for pod in range(topology.pods):
        for rail in range(topology.rails):
            net.switches[leaf_name(pod + 1, rail)] = per_leaf + topology.spines * topology.cables
    for node in range(topology.nodes):
        for rail in range(topology.rails):
            hca = hca_name(node + 1, rail)
            net.hcas[hca] = 1
            leaf = leaf_name(node // per_leaf + 1, rail)
            net.links.append(FabricLink(hca, 1, leaf, node % per_leaf + 1))
    for plane in range(topology.planes):
        _connect(net, topology, plane)
    return net


def _connect(net: Net, topology: Topology, plane: int) -> None:
    """Add the spines of a plane, and its cores above them."""
    rails = range(plane, topology.rails, topology.planes)
    pods = [[pod] for pod in range(topology.pods)] if topology.cores else [[*range(topology.pods)]]
    spines = []
    for group in pods:
        leaves = [leaf_name(pod + 1, rail) for pod in group for rail in rails]
        names = _spines(topology, plane, group[0])
        spines += names
        for number, name in enumerate(names):
            net.switches[name] = len(leaves) * topology.cables + topology.cores
            for place, leaf in enumerate(leaves):
                for cable in range(topology.cables):
                    up = topology.nodes_per_leaf + number * topology.cables + cable + 1
                    down = place * topology.cables + cable + 1
                    net.links.append(FabricLink(leaf, up, name, down))
    for number, core in enumerate(_cores(topology, plane)):
        net.switches[core] = len(spines)
        for place, name in enumerate(spines):
            up = net.switches[name] - topology.cores + number + 1
            net.links.append(FabricLink(name, up, core, place + 1))


def _above(topology: Topology, plane: int) -> list[str]:
    groups = range(topology.pods) if topology.cores else range(1)
    spines = [name for pod in groups for name in _spines(topology, plane, pod)]
    return [*spines, *_cores(topology, plane)]


def _spines(topology: Topology, plane: int, pod: int) -> list[str]:
    """Return the names of a plane's spines, with cores those of a pod."""
    of_pod = f"-{pod_name(pod + 1)}" if topology.cores else ""
    head = f"spine{of_pod}{_of_plane(topology, plane)}"
    return [f"{head}-{number + 1}" for number in range(topology.spines)]


def _cores(topology: Topology, plane: int) -> list[str]:
    head = f"core{_of_plane(topology, plane)}"
    return [f"{head}-{number + 1}" for number in range(topology.cores)]


def _of_plane(topology: Topology, plane: int) -> str:
    return f"-plane{plane}" if topology.planes > 1 else ""


def write_site(directory: Path, topology: Topology) -> None:
    """Write hosts and variables; the leaf of a rail follows from the node's fabric_leaf."""
    import yaml

    hosts = {
        node_name(node + 1): {"fabric_leaf": pod_name(node // topology.nodes_per_leaf + 1)}
        for node in range(topology.nodes)
    }
    variables: dict[str, Any] = {
        "fabric_kind": "infiniband",
        "fabric_link_gbps": RATE_GBPS,
        "fabric_ipoib": False,
        "fabric_partition_keys": [_DEFAULT_KEY],
        "subnet_manager_hosts": [node_name(1)],
        "fabric_rails": [
            {"rdma": device_name(rail), "leaf": leaf_name("{{ fabric_leaf }}", rail)}
            for rail in range(topology.rails)
        ],
        "fabric_spines": topology.spine_names(),
    }
    (directory / "group_vars").mkdir(parents=True, exist_ok=True)
    for name, data in (
        ("hosts.yml", {"nodes": {"hosts": hosts}}),
        ("group_vars/all.yml", variables),
    ):
        text = yaml.safe_dump(data, sort_keys=False, width=1000)
        (directory / name).write_text(_HEADER + text)
