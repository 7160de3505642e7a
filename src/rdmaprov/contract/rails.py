"""The rails of one node: device names, addresses and gateways; and rails across nodes."""

import ipaddress
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network

from rdmaprov.contract.nccl import RDMA_NAME
from rdmaprov.contract.rule import FleetRule, Rule, Violation, is_roce
from rdmaprov.inventory.model import Interface, Node, Rail
from rdmaprov.words import quantity, some

_RAILS = "fabric_rails"
PLAN = "NVIDIA DGX SuperPOD reference architecture: rail-optimised compute fabric"
_PCI = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]")
_NETDEV = re.compile(r"[^\s/:]{1,15}")
# What Linux takes as the name of one device, and a person means as several: ens[1-8], ens1-ens8.
_SEVERAL = re.compile(r".*[][{}*?,%].*|(.*?)\d+(.*?)(?:-|\.\.|:)\1?\d+\2")
_MOST_GPUS_A_RAIL = 4  # our choice: DGX-1 and HGX with four ports have two, cheap servers four


_ONE_EACH = "write an entry for each rail, such as {netdev: ens1}, {netdev: ens2}"


@lru_cache(maxsize=1024)  # nodes share their names
def is_several(name: str) -> bool:
    """Return whether a device's name is a range or a pattern that nothing has expanded."""
    return len(name) < 64 and _SEVERAL.fullmatch(name) is not None


def notes(node: Node, shapes: Collection[str]) -> Iterator[str]:
    """Yield what is odd about a node's rails, and right on some machines.

    Args:
        shapes: of the hosts' names; see `shape`.
    """
    names = [name for rail in node.rails for name in (rail.netdev, rail.rdma) if name]
    several = [name for name in names if is_several(name) and _NETDEV.fullmatch(name)]
    if several:
        yield f"{some(several, 4)}: one device to Linux, and reads like several; {_ONE_EACH}"
    if alike := [name for name in names if name not in several and shape(name) in shapes]:
        yield f"{some(alike, 4)}: a rail named like a node; write the name that `ip link` shows"
    gpus, rails = node.get("fabric_gpu_count") or 0, len(node.compute_rails)
    if rails and gpus > _MOST_GPUS_A_RAIL * rails:
        ports = "if the node has more RDMA ports, write them into fabric_rails"
        yield f"{gpus} GPUs share {quantity(rails, 'rail')}; {ports}"
    elif rails and gpus and max(gpus, rails) % min(gpus, rails):
        ports = "is a rail missing? Or write gpus: [...] as `nvidia-smi topo -m` shows"
        yield f"{gpus} GPUs do not share {quantity(rails, 'rail')} evenly; {ports}"


def shape(name: str) -> str:
    """Return a name that others share which differ in their digits alone."""
    return re.sub(r"\d", "0", name.partition(".")[0])


def _devices(node: Node) -> Iterator[Violation]:
    if node.get(_RAILS) == []:
        yield Violation(_RAILS, "the node has no rails", "write at least one rail")
    for rail in node.rails:
        if not rail.netdev and not rail.pci and (is_roce(node) or not rail.rdma):
            message = f"rail {rail.index} has neither netdev nor pci"
            if rail.rdma:
                message += "; its RDMA device alone names it on InfiniBand only"
            yield Violation(
                _RAILS, message, "write one of them, such as netdev: ens1", (rail.index,)
            )
        if rail.pci and not _PCI.fullmatch(rail.pci):
            message = f"'{rail.pci}' is not a PCI address"
            remedy = 'write the full address in quotes, such as "0000:18:00.0"'
            yield Violation(_RAILS, message, remedy, (rail.index, "pci"))
        yield from _netdev(node, rail)


def _netdev(node: Node, rail: Rail) -> Iterator[Violation]:
    if not rail.netdev:
        return
    where = (rail.index, "netdev")
    if RDMA_NAME.match(rail.netdev) and not rail.netdev.startswith("ibp"):
        message = f"'{rail.netdev}' is an RDMA device, not a network device"
        other = "a PCI address" if is_roce(node) else f"rdma: {rail.netdev}"
        remedy = f"write the name that `ip link` shows, or {other}"
        yield Violation(_RAILS, message, remedy, where)
    elif not _NETDEV.fullmatch(rail.netdev):
        message = f"'{rail.netdev}' is not a valid network device name"
        remedy = "write 1 to 15 characters without space, / and :"
        remedy = _ONE_EACH if is_several(rail.netdev) else remedy
        yield Violation(_RAILS, message, remedy, where)


def _unique_devices(node: Node) -> Iterator[Violation]:
    for key in ("netdev", "pci", "rdma"):
        count = Counter(getattr(rail, key) for rail in node.rails if getattr(rail, key))
        for rail in node.rails:
            name = getattr(rail, key)
            if name and count[name] > 1:
                message = f"{name} is the {key} of {count[name]} rails"
                remedy = "write a different device for each rail"
                yield Violation(_RAILS, message, remedy, (rail.index, key))


def _gateways(node: Node) -> Iterator[Violation]:
    for rail in node.rails:
        if not rail.gateway:
            continue
        where = (rail.index, "gateway")
        try:
            gateway = ipaddress.ip_address(rail.gateway)
        except ValueError:
            message = f"'{rail.gateway}' is not an IP address"
            yield Violation(
                _RAILS, message, "write the router's address, without a prefix length", where
            )
            continue
        if rail.address is None:
            message = "the rail has a gateway but no address"
            yield Violation(_RAILS, message, "write the rail's address", where)
        elif gateway.version != rail.address.version and not _is_unnumbered(rail, gateway):
            message = f"{gateway} is of another family than {rail.address}"
            remedy = f"write an IPv{rail.address.version} router"
            yield Violation(_RAILS, message, remedy, where)
        elif gateway not in rail.address.network and not _is_unnumbered(rail, gateway):
            message = f"{gateway} is not in the rail's subnet {rail.address.network}"
            yield Violation(_RAILS, message, "write a router in this subnet", where)
        elif gateway == rail.address.ip:
            message = f"{gateway} is the rail's own address"
            yield Violation(_RAILS, message, "write the router's address", where)


def _is_unnumbered(rail: Rail, gateway: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Return whether a router outside the rail's subnet is reached over the link itself."""
    if gateway.is_link_local:
        return gateway.version == 6 or (rail.address is not None and rail.address.version == 4)
    return is_host_address(rail.address) and gateway.version == _version(rail)


def is_host_address(address: Interface | None) -> bool:
    """Return whether an address is a /32 or /128, whose subnet is itself alone."""
    return address is not None and address.network.prefixlen == address.max_prefixlen


def is_routed(node: Node, rail: Rail) -> bool:
    """Return whether a rail's subnet ends at a router: a gateway, or a daemon's routes."""
    by_daemon = is_host_address(rail.address) and node.get("fabric_source_routing") is False
    return bool(rail.gateway) or by_daemon


def _version(rail: Rail) -> int:
    return rail.address.version if rail.address else 0


def _storage_last(node: Node) -> Iterator[Violation]:
    compute = [rail.index for rail in node.compute_rails]
    if node.rails and not compute:
        message = "every rail is for storage, and none for compute"
        yield Violation(_RAILS, message, "remove use: storage where the rail is all there is")
    for rail in node.rails:
        if rail.use == "storage" and compute and rail.index < compute[-1]:
            message = f"storage rail {rail.index} comes before compute rail {compute[-1]}"
            remedy = "write storage rails last: rail i of all nodes is one network plane"
            yield Violation(_RAILS, message, remedy, (rail.index, "use"))


def _reachable(node: Node) -> Iterator[Violation]:
    for rail in node.rails:
        if is_host_address(rail.address) and not is_routed(node, rail):
            message = f"{rail.address} has no subnet and no gateway, so it reaches nothing"
            remedy = "write the rail's gateway, or the subnet's prefix length; or, where a routing "
            remedy += "daemon on the node has the routes, fabric_source_routing: false"
            yield Violation(_RAILS, message, remedy, (rail.index, "address"))


def _usable_addresses(node: Node) -> Iterator[Violation]:
    for rail in node.rails:
        if rail.address is not None and (reason := _unusable_reason(rail.address)):
            message = f"{rail.address} is {reason}"
            yield Violation(_RAILS, message, "write the address of a host", (rail.index, "address"))
    written = node.get(_RAILS) or []
    # On InfiniBand, storage alone may use IPoIB; RoCE has no GID for NCCL without an address.
    for use in ("compute", "storage"):
        rails = [rail for rail in node.rails if rail.use == use or is_roce(node)]
        given = [rail for rail in rails if rail.address is not None or _is_written(written, rail)]
        if given and len(given) != len(rails):
            missing = next(rail.index for rail in rails if rail not in given)
            message = f"rail {missing} has no address, but other rails have one"
            remedy = "write an address for each rail, or for none"
            if not is_roce(node):
                remedy += f" of those for {use}"
            yield Violation(_RAILS, message, remedy, (missing,))
            return


def _is_written(written: list[dict[str, object]], rail: Rail) -> bool:
    """Return whether a rail has an address, valid or not."""
    return rail.index < len(written) and bool(written[rail.index].get("address"))


def _unusable_reason(address: Interface) -> str:
    network, ip = address.network, address.ip
    if ip.is_loopback or ip.is_multicast or ip.is_unspecified:
        return "a loopback, multicast or unspecified address"
    if address.version == 4 and network.prefixlen < 31:
        if ip == network.network_address:
            return "the address of the subnet itself"
        if ip == network.broadcast_address:
            return "the broadcast address of its subnet"
    return ""


def _overlaps(node: Node) -> Iterator[Violation]:
    networks = [(rail.index, rail.address.network) for rail in node.rails if rail.address]
    return iter(_overlapping(tuple(networks)))


@lru_cache(maxsize=1024)  # nodes share their subnets
def _overlapping(networks: tuple[tuple[int, IPv4Network | IPv6Network], ...]) -> list[Violation]:
    return [
        Violation(
            _RAILS,
            f"{network} of rail {index} overlaps {wider} of rail {other}",
            "write subnets that do not overlap",
            (index, "address"),
        )
        for position, (index, network) in enumerate(networks)
        for other, wider in networks[:position]
        if network != wider and network.version == wider.version and network.overlaps(wider)
    ]


def _switch_ports(node: Node) -> Iterator[Violation]:
    for rail in node.rails:
        if rail.switch_port and not rail.leaf:
            message = f"rail {rail.index} has a switch_port, but no leaf"
            remedy = "write the leaf that the port belongs to"
            yield Violation(_RAILS, message, remedy, (rail.index, "switch_port"))


RULES = (
    Rule("rails.named", "Each rail is named by a network device or a PCI address; on InfiniBand, "
         "its RDMA device alone will do.", "Linux include/uapi/linux/if.h: IFNAMSIZ; PCI address "
         "as lspci -D prints it; RoCE's DCB, trust and GIDs are a network device's", _devices),
    Rule("rails.unique", "The rails of a node are different devices.", PLAN, _unique_devices),
    Rule("rails.usable", "Either every rail has the address of a host, or none has; on InfiniBand, "
         "of those for compute and of those for storage each.",
         "RFC 1122, section 3.2.1.3", _usable_addresses),
    Rule("rails.gateway", "A rail's gateway is another address in its subnet, or reached over the "
         "link: link-local, or of a /32 or /128 address.",
         "RFC 1812, section 2.2.3; RFC 4861; RFC 8950; iproute2 man ip-route.8: onlink", _gateways),
    Rule("rails.reachable", "A /32 or /128 address has a gateway, or routes of a daemon "
         "(fabric_source_routing: false).",
         "RFC 1812, section 2.2.3; FRRouting, BGP unnumbered: the daemon has the routes",
         _reachable),
    Rule("rails.storage", "Storage rails come after compute rails, of which there is one.",
         PLAN, _storage_last),
    Rule("rails.switch-port", "A rail's switch port is a port of its leaf.",
         "IEEE 802.1AB, 9.5.3: a port ID is unique within its chassis", _switch_ports),
    Rule("rails.overlap", "The subnets of a node's rails do not overlap.", PLAN, _overlaps),
)  # fmt: skip


def _addresses(nodes: Sequence[Node]) -> Iterator[tuple[Node, Violation]]:
    seen: dict[object, tuple[Node, Rail]] = {}
    for node in nodes:
        for rail in node.rails:
            if rail.address is None:
                continue
            if rail.address.ip in seen:
                other, at = seen[rail.address.ip]
                message = (
                    f"{rail.address.ip} is also the address of rail {at.index} of {other.name}"
                )
                remedy = "write an address that no other rail has"
                yield node, Violation(_RAILS, message, remedy, (rail.index, "address"))
            seen.setdefault(rail.address.ip, (node, rail))


def _planes(nodes: Sequence[Node]) -> Iterator[tuple[Node, Violation]]:
    first: dict[tuple[str, int], tuple[Node, Rail]] = {}
    for node in nodes:
        for plane, rail in node.planes.items():
            if rail.address is None:
                continue
            other, one = first.setdefault(plane, (node, rail))
            routed = is_routed(node, rail) and is_routed(other, one)
            if one.address is None or one.address.network == rail.address.network or routed:
                continue
            message = (
                f"rail {rail.index} is in {rail.address.network}, "
                f"but in {one.address.network} on {other.name}"
            )
            remedy = f"put rail {rail.index} of all nodes into one subnet, or write its gateways"
            yield node, Violation(_RAILS, message, remedy, (rail.index, "address"))


def _separate_subnets(nodes: Sequence[Node]) -> Iterator[tuple[Node, Violation]]:
    owner: dict[object, tuple[tuple[str, int], int]] = {}
    for node in nodes:
        for plane, rail in node.planes.items():
            if rail.address is None:
                continue
            first, index = owner.setdefault(rail.address.network, (plane, rail.index))
            if first != plane:
                low, high = sorted((index, rail.index))
                message = f"rails {low} and {high} share {rail.address.network}"
                remedy = "give each rail its own subnet; or waive the rule (fabric_waivers) where "
                remedy += "one subnet for all is meant and fabric_source_routing keeps rails apart"
                yield node, Violation(_RAILS, message, remedy, (rail.index, "address"))


def _neighbors(nodes: Sequence[Node]) -> Iterator[tuple[Node, Violation]]:
    members = Counter(r.address.network for n in nodes for r in n.rails if r.address is not None)
    for node in nodes:
        need = sum(members[rail.address.network] - 1 for rail in node.rails if rail.address)
        entries = node.get("fabric_neighbor_entries")
        held = 512 if entries == 0 else entries  # half of the kernel's gc_thresh3
        if isinstance(held, int) and need > held:
            message = f"{held} are too few for {need} neighbors in the subnets of the node's rails"
            yield node, Violation("fabric_neighbor_entries", message, f"write {2 * need}")


def _shared_ports(nodes: Sequence[Node]) -> Iterator[tuple[Node, Violation]]:
    first: dict[tuple[str, str], tuple[Node, Rail]] = {}
    for node in nodes:
        for rail in node.rails:
            if not rail.leaf or not rail.switch_port:
                continue
            key = rail.leaf.lower(), rail.switch_port.lower()
            other, one = first.setdefault(key, (node, rail))
            if one is not rail:
                message = (
                    f"{rail.leaf} {rail.switch_port} is the port of rail {rail.index}, and of "
                    f"rail {one.index} of {other.name}"
                )
                remedy = "write the port of each rail, such as by a template of its node"
                yield node, Violation(_RAILS, message, remedy, (rail.index, "switch_port"))


FLEET_RULES = (
    FleetRule("rails.addresses", "Each address is used once in the fleet.",
              "RFC 5227, section 1", _addresses),
    FleetRule("rails.plane", "Rail i of all nodes is in one subnet, or routed.", PLAN, _planes),
    FleetRule("rails.switch-ports", "Each port of a switch has one rail.",
              "IEEE 802.1AB, 9.5.3: a port ID is unique within its chassis", _shared_ports),
    FleetRule("rails.neighbors",
              "The neighbor tables hold all nodes in the subnets of a node's rails.",
              "man arp.7: gc_thresh3; Linux net/core/neighbour.c", _neighbors),
    FleetRule("rails.apart", "Different rails are in different subnets.", PLAN, _separate_subnets),
)  # fmt: skip
