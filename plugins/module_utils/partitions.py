"""Partition keys of InfiniBand, as a site writes them. Pure."""

from __future__ import annotations

import re

# [InfiniBand Architecture 1.7, volume 1, 10.9.1] The highest of 16 bits is full membership, the
# others are the partition's number, which is never 0.
NUMBER, FULL = 0x7FFF, 0x8000


def partition_key(text: str) -> int | None:
    """Return a partition key, None if the text is none."""
    if not re.fullmatch(r"0x[0-9a-fA-F]{1,4}", text) or not int(text, 16) & NUMBER:
        return None
    return int(text, 16)


def interface_of(netdev: str, key: int) -> str:
    """Return the name of a partition's IPoIB interface on a port's network device.

    Linux drivers/infiniband/ulp/ipoib/ipoib_vlan.c, ipoib_vlan_add: "%s.%04x". NetworkManager knows
    no other [libnm, NMSettingInfiniband:p-key].
    """
    return f"{netdev}.{key:04x}"
