"""The faults of a subnet on ibsim: in its cables, its counters, its tables, its manager."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from rdmaprov.errors import UsageError
from rdmaprov.lab.ib_topology import FabricLink, Net, Topology, hca_name, leaf_name

_ENTRY = re.compile(r"(0x[0-9a-f]{4}) (\d{3})( : \(Channel Adapter .*'(.*)'\).*)")


@dataclass(frozen=True)
class SubnetFault:
    """One fault."""

    title: str
    cables: Callable[[Net, Topology], None] | None = None  # changes the fabric before it is made
    console: Callable[[Topology], str] | None = None  # what ibsim is told once the subnet is up
    # changes the tables of dump_fts, which opensm then loads
    tables: Callable[[str, Topology], str] | None = None
    without_manager: bool = False  # the subnet manager ends once the subnet is up
    # the second node runs one, too; wrong by a site that names its managers
    second_manager: bool = False
    # the HCA that the manager makes a limited member of the default partition. No text of `lab
    # subnet save` shows it: `rdmaprov subnet` asks each port.
    limited: str = ""


def _swap(net: Net, one: tuple[str, int], other: tuple[str, int]) -> None:
    first, second = net.link(*one), net.link(*other)
    _move(first, one, other)
    _move(second, other, one)


def _move(link: FabricLink, old: tuple[str, int], new: tuple[str, int]) -> None:
    if (link.near, link.near_port) == old:
        link.near, link.near_port = new
    else:
        link.far, link.far_port = new


def _swapped_rails(net: Net, _: Topology) -> None:
    _swap(net, (leaf_name(1, 0), 3), (leaf_name(1, 1), 3))


def _wrong_leaf(net: Net, _: Topology) -> None:
    _swap(net, (leaf_name(1, 0), 3), (leaf_name(2, 0), 3))


def _swapped_trunks(net: Net, topology: Topology) -> None:
    up = topology.nodes_per_leaf + 1
    _swap(net, (leaf_name(1, 0), up), (leaf_name(1, 1), up + topology.cables))


def _hca_down(net: Net, _: Topology) -> None:
    net.links.remove(net.link(hca_name(3, 1), 1))


def _node_down(net: Net, topology: Topology) -> None:
    for rail in range(topology.rails):
        net.remove(hca_name(3, rail))


def _link_down(net: Net, topology: Topology) -> None:
    net.links.remove(net.link(leaf_name(1, 0), topology.nodes_per_leaf + 1))


def _slow_link(net: Net, topology: Topology) -> None:
    net.link(leaf_name(1, 0), topology.nodes_per_leaf + 1).rate = "4xEDR"


def _narrow_hca(net: Net, _: Topology) -> None:
    net.link(hca_name(3, 1), 1).rate = "1xHDR"


def _errors(_: Topology) -> str:
    # ibsim knows a switch by the number of the net file: the first is leaf-p1-r0.
    return 'PerformanceSet "S-0000000000100000"[3] PortCounters.SymbolErrorCounter=1234\n'


def _uneven(text: str, topology: Topology) -> str:
    """Send half of the HCAs that are above each leaf by its first port to a spine."""
    first_up = topology.nodes_per_leaf + 1
    lines, is_leaf = [], False
    for line in text.splitlines():
        if line.startswith("Unicast"):
            is_leaf = "(leaf-" in line
        entry = _ENTRY.match(line)
        if is_leaf and entry and int(entry[2]) >= first_up and int(entry[1], 16) % 2 == 0:
            line = f"{entry[1]} {first_up:03d}{entry[3]}"
        lines.append(line)
    return "\n".join(lines) + "\n"


def _credit_loop(text: str, topology: Topology) -> str:
    """Send two HCAs of the second pod from spine to spine over leaves of the first pod."""
    up, cables = topology.nodes_per_leaf + 1, topology.cables
    first, second = (hca_name(topology.nodes_per_leaf + n, 0) for n in (1, 2))
    ways = {
        (leaf_name(1, 0), first): up,
        ("spine-1", first): cables + 1,
        (leaf_name(1, 1), first): up + cables,
        (leaf_name(1, 1), second): up + cables,
        ("spine-2", second): 1,
        (leaf_name(1, 0), second): up,
    }
    lines, switch = [], ""
    for line in text.splitlines():
        if head := re.match(r"Unicast.*\((.*)\):", line):
            switch = head[1]
        entry = _ENTRY.match(line)
        if entry and (port := ways.get((switch, entry[4]))):
            line = f"{entry[1]} {port:03d}{entry[3]}"
        lines.append(line)
    return "\n".join(lines) + "\n"


FAULTS = {
    "link-down": SubnetFault("a cable from leaf-p1-r0 to spine-1 is away", _link_down),
    "hca-down": SubnetFault("node003 mlx5_1 has no link", _hca_down),
    "node-down": SubnetFault("node003 is off", _node_down),
    "spine-down": SubnetFault("spine-2 is off", lambda net, _: net.remove("spine-2")),
    "swapped-rails": SubnetFault("node003 has rails 0 and 1 swapped", _swapped_rails),
    "wrong-leaf": SubnetFault("rail 0 of node003 is on a leaf of pod 2", _wrong_leaf),
    "swapped-trunks": SubnetFault("two leaves have a cable to a spine swapped", _swapped_trunks),
    "slow-link": SubnetFault("a cable from leaf-p1-r0 to spine-1 runs at EDR", _slow_link),
    "narrow-hca": SubnetFault("node003 mlx5_1 runs with one lane", _narrow_hca),
    "errors": SubnetFault("port 3 of leaf-p1-r0 has symbol errors", console=_errors),
    "uneven-routes": SubnetFault("half of all routes leave leaves by one port", tables=_uneven),
    "credit-loop": SubnetFault("routes go down and up again in a ring", tables=_credit_loop),
    "pkey-missing": SubnetFault(
        "node003 mlx5_1 is a limited member of its partition", limited=hca_name(3, 1)
    ),
    "second-manager": SubnetFault(
        "node002 mlx5_0 runs a second subnet manager", second_manager=True
    ),
    "manager-dead": SubnetFault("the subnet manager has ended", without_manager=True),
}
# The least fabric that has what faults change: two pods, two rails, two spines.
_LEAST_IN_POD = 4
_LEAST_RAILS = _LEAST_SPINES = 2


def chosen(names: str | None, topology: Topology) -> list[SubnetFault]:
    """Return the faults of a list; raise UsageError for one that is unknown, or does not fit."""
    wanted = [name.strip() for name in (names or "").split(",") if name.strip()]
    unknown = [name for name in wanted if name not in FAULTS]
    if unknown:
        raise UsageError(f"there is no fault {unknown[0]}", f"Faults: {', '.join(FAULTS)}")
    if wanted and not topology.is_plain:
        raise UsageError(
            "faults need two levels and one plane", "Leave out --cores, --planes, or --fault."
        )
    is_small = (
        topology.nodes < topology.nodes_per_leaf + _LEAST_IN_POD
        or topology.nodes_per_leaf < _LEAST_IN_POD
        or topology.rails < _LEAST_RAILS
        or topology.spines < _LEAST_SPINES
    )
    if wanted and is_small:
        raise UsageError(
            "this fabric is too small for faults",
            f"Take two spines, two rails, and {_LEAST_IN_POD} nodes in each of two pods, or more.",
        )
    return [FAULTS[name] for name in wanted]
