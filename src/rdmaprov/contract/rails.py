"""Rails of one node: named, unique, with usable addresses."""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from collections.abc import Iterator

from rdmaprov.contract.nccl import RDMA_NAME
from rdmaprov.contract.rule import Finding, Rule
from rdmaprov.inventory.model import Interface, Node, Rail

_RAILS = "fabric_rails"
PLAN = "NVIDIA DGX SuperPOD reference architecture: rail-optimised compute fabric"
_PCI = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]")
_NETDEV = re.compile(r"[^\s/:]{1,15}")


def _named(node: Node) -> Iterator[Finding]:
    if node.get(_RAILS) == []:
        yield Finding(_RAILS, "the node has no rails", "write at least one")
    for rail in node.rails:
        if not rail.netdev and not rail.pci:
            message = f"rail {rail.index} has neither netdev nor pci"
            yield Finding(_RAILS, message, "write one, such as netdev: ens1", (rail.index,))
        if rail.pci and not _PCI.fullmatch(rail.pci):
            message = f"'{rail.pci}' is not a PCI address"
            yield Finding(_RAILS, message, "write such as 0000:18:00.0", (rail.index, "pci"))
        yield from _netdev(rail)


def _netdev(rail: Rail) -> Iterator[Finding]:
    if not rail.netdev:
        return
    where = (rail.index, "netdev")
    if RDMA_NAME.match(rail.netdev) and not rail.netdev.startswith("ibp"):
        message = f"'{rail.netdev}' is an RDMA device, not a network device"
        yield Finding(_RAILS, message, "write the name that `ip link` shows, or the pci", where)
    elif not _NETDEV.fullmatch(rail.netdev):
        message = f"'{rail.netdev}' cannot be a network device"
        yield Finding(_RAILS, message, "write at most 15 characters, no / and no :", where)


def _unique(node: Node) -> Iterator[Finding]:
    for key in ("netdev", "pci"):
        count = Counter(getattr(rail, key) for rail in node.rails if getattr(rail, key))
        for rail in node.rails:
            name = getattr(rail, key)
            if name and count[name] > 1:
                message = f"{name} is the {key} of {count[name]} rails"
                remedy = "name each rail's own device"
                yield Finding(_RAILS, message, remedy, (rail.index, key))


def _gateway(node: Node) -> Iterator[Finding]:
    for rail in node.rails:
        if not rail.gateway:
            continue
        where = (rail.index, "gateway")
        try:
            gateway = ipaddress.ip_address(rail.gateway)
        except ValueError:
            message = f"'{rail.gateway}' is not an address"
            yield Finding(_RAILS, message, "write the router's address alone", where)
            continue
        if rail.address is None:
            yield Finding(_RAILS, "a gateway needs an address", "write the rail's address", where)
        elif gateway not in rail.address.network:
            message = f"{gateway} is not in the rail's subnet {rail.address.network}"
            yield Finding(_RAILS, message, "write a router of this subnet", where)
        elif gateway == rail.address.ip:
            message = f"{gateway} is the rail's own address"
            yield Finding(_RAILS, message, "write the router's address", where)


def _usable(node: Node) -> Iterator[Finding]:
    for rail in node.rails:
        if rail.address is not None and (reason := _unusable(rail.address)):
            message = f"{rail.address} is {reason}"
            yield Finding(_RAILS, message, "write a host's address", (rail.index, "address"))
    given = [rail for rail in node.rails if rail.address is not None]
    if given and len(given) != len(node.rails) and len(given) == len(_described(node)):
        missing = next(rail.index for rail in node.rails if rail.address is None)
        message = f"rail {missing} has no address, and other rails have one"
        yield Finding(_RAILS, message, "write an address for each rail, or for none", (missing,))


def _described(node: Node) -> list[object]:
    """Return the addresses as written, those that could not be read among them."""
    return [rail["address"] for rail in node.get(_RAILS) or [] if rail.get("address")]


def _unusable(address: Interface) -> str:
    network = address.network
    if address.ip.is_loopback or address.ip.is_multicast or address.ip.is_unspecified:
        return "not a host's address"
    if address.version == 4 and network.prefixlen < 31:
        if address.ip == network.network_address:
            return "the address of the subnet itself"
        if address.ip == network.broadcast_address:
            return "the broadcast address of its subnet"
    return ""


def _overlap(node: Node) -> Iterator[Finding]:
    networks = [(rail.index, rail.address.network) for rail in node.rails if rail.address]
    for position, (index, network) in enumerate(networks):
        for other, wider in networks[:position]:
            if network != wider and network.version == wider.version and network.overlaps(wider):
                message = f"rail {index}'s {network} overlaps rail {other}'s {wider}"
                remedy = "write subnets that do not overlap"
                yield Finding(_RAILS, message, remedy, (index, "address"))


RULES = (
    Rule("rails.named", "Each rail is named by a network device or a PCI address.",
         "Linux include/uapi/linux/if.h: IFNAMSIZ; PCI address as lspci -D prints it", _named),
    Rule("rails.unique", "No two rails of a node are one device.", PLAN, _unique),
    Rule("rails.usable", "Addresses are hosts' addresses, for all rails or none.",
         "RFC 1122, section 3.2.1.3", _usable),
    Rule("rails.gateway", "A rail's gateway is another address of its subnet.",
         "RFC 1812, section 2.2.3", _gateway),
    Rule("rails.overlap", "The subnets of a node's rails do not overlap.", PLAN, _overlap),
)  # fmt: skip
