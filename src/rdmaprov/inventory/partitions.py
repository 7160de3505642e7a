"""Partition keys and subnet prefixes of InfiniBand, as a site writes them."""

import re

from rdmaprov.inventory.model import Node, Rail

# InfiniBand Architecture 1.7, volume 1, 10.9.1: the highest of 16 bits is full membership, the
# others are the partition's number, which is never 0.
FULL = 0x8000
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]{1,16}")


def hexadecimal(text: str) -> int | None:
    """Return a number such as 0x8001, None for any other text."""
    return int(text, 16) if _HEXADECIMAL.fullmatch(text) else None


def partition_key(text: str) -> int | None:
    """Return a partition key, None if the text is none."""
    found = hexadecimal(text)
    return found if found is not None and found <= 0xFFFF and found & ~FULL else None


def subnet_prefix(text: str) -> int | None:
    """Return a subnet prefix, None if the text is none."""
    return hexadecimal(text) or None


def partition_keys(node: Node, rail: Rail) -> tuple[int, ...]:
    """Return the partition keys that a rail's port must have; none if the site names none."""
    written = node.get("fabric_partition_keys") if rail.pkeys is None else rail.pkeys
    return tuple(key for key in map(partition_key, written or ()) if key is not None)


def interface_of(netdev: str, key: int) -> str:
    """Return the name of a partition's IPoIB interface on a port's network device.

    Linux drivers/infiniband/ulp/ipoib/ipoib_vlan.c, ipoib_vlan_add: "%s.%04x".
    """
    return f"{netdev}.{key:04x}"


def shown_key(key: int) -> str:
    """Return a partition key as the kernel and opensm print it."""
    return f"0x{key:04x}"
