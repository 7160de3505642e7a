"""The index that NCCL_IB_PKEY is: of a partition key in the tables of a node's ports."""

from __future__ import annotations

import re

from ..machine import Machine
from ..partitions import partition_key
from ..plan import NotYet, Refused

_INFINIBAND = "/sys/class/infiniband"


def partition_index(machine: Machine, hcas: list[str], key: str) -> str:
    """Return the index of a partition key, which must be the same on all ports that NCCL uses.

    NCCL has one index for all of them. [NCCL src/transport/net_ib/connect.cc: ncclParamIbPkey]

    Raises:
        NotYet: the subnet manager has not given a port the key.
        Refused: the text is no key, or no index has it on all ports.
    """
    wanted = partition_key(key)
    if wanted is None:
        raise Refused(
            f"nccl_ib_pkey: '{key}' is not a partition key: write one of fabric_partition_keys, "
            'such as "0x8001"'
        )
    common: set[int] = set()
    for number, hca in enumerate(hcas):
        places = _indexes(machine, hca, wanted)
        if not places:
            raise NotYet(
                f"{hca}: its port has no partition key {key} (nccl_ib_pkey; "
                f"{_INFINIBAND}/{hca}/ports/1/pkeys). Add the port to the partition in the subnet "
                "manager's partitions.conf"
            )
        common = common & places if number else places
    if not common:
        raise Refused(
            f"nccl_ib_pkey: {key} has no index that is the same on {', '.join(hcas)} "
            f"({_INFINIBAND}/*/ports/1/pkeys), and NCCL_IB_PKEY is one index for all: give the "
            "ports the same partitions in the subnet manager"
        )
    return str(min(common))


def _indexes(machine: Machine, hca: str, wanted: int) -> set[int]:
    """Return where a port has a key; the kernel writes it as 0x8001."""
    table = f"{_INFINIBAND}/{hca}/ports/1/pkeys"
    found = set()
    for name in machine.names(table):
        text = machine.value(f"{table}/{name}") or ""
        if name.isdigit() and re.fullmatch(r"0x[0-9a-f]{4}", text) and int(text, 16) == wanted:
            found.add(int(name))
    return found
