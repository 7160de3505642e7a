"""Which rail of which node an address, a GID or an HCA belongs to, and which leaf a node is on."""

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rdmaprov.acceptance.ranks.plan import GateJob
from rdmaprov.boundary import Document
from rdmaprov.inventory import Node

Place = tuple[str, int | None]  # a node and its rail; None: not a rail, or not known


@dataclass(frozen=True)
class RailMap:
    """Where the addresses of a fleet are."""

    # places by address, as `plain_address` has it
    addresses: Mapping[str, Place] = field(default_factory=dict)
    # the number of the rail, by node and HCA
    hcas: Mapping[tuple[str, str], int] = field(default_factory=dict)
    rails: Mapping[str, int] = field(default_factory=dict)
    leaves: Mapping[str, str] = field(default_factory=dict)

    def place_of(self, address: str) -> Place | None:
        """Return whose an address or a GID is, None if it is nobody's."""
        return self.addresses.get(plain_address(address)) if address else None

    def nodes_of(self, leaf: str) -> tuple[str, ...]:
        """Return the nodes of a leaf."""
        return tuple(node for node, of in self.leaves.items() if of == leaf)


def plain_address(text: str) -> str:
    """Return an address in one form; a GID of RoCE v2 over IPv4 is ::ffff:a.b.c.d."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return text
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        return str(address.ipv4_mapped)
    return str(address)


def job_map(job: GateJob) -> RailMap:
    """Return what a job alone says: the addresses of its planes."""
    places = {
        plain_address(address): (node, plane.rail)
        for plane in job.planes
        for node, address in plane.addresses.items()
    }
    return RailMap(places)


def site_map(nodes: Sequence[Node], facts: Mapping[str, Document]) -> RailMap:
    """Return where everything is, from the site and the preflight.

    An address that two nodes have, as two bridges can, names neither.
    """
    owners: dict[str, set[Place]] = {}
    hcas: dict[tuple[str, str], int] = {}
    for node in nodes:
        seen = facts.get(node.name)
        for address, rail in _addresses(seen) if seen else ():
            owners.setdefault(plain_address(address), set()).add((node.name, rail))
        for rail, each in enumerate(seen["rails"][: len(node.compute_rails)] if seen else ()):
            hcas[node.name, str(each.get("rdma", ""))] = rail
    return RailMap(
        {address: next(iter(places)) for address, places in owners.items() if len(places) == 1},
        hcas,
        {node.name: len(node.compute_rails) for node in nodes},
        {node.name: leaf for node in nodes if (leaf := node.leaf)},
    )


def _addresses(seen: Document) -> list[tuple[str, int | None]]:
    """Return a node's addresses with their rails, None for those of other devices."""
    by_netdev = {each["netdev"]: number for number, each in enumerate(seen["rails"])}
    found = [
        (address, by_netdev.get(netdev))
        for netdev, known in seen.get("addresses", {}).items()
        for address in known
    ]
    for number, each in enumerate(seen["rails"]):
        found += [(address, number) for address in each.get("addresses", ())]
    return found
