"""Whether RDMA devices that a site lists by name keep it when a card is missing. Runs on the node.

The kernel gives a new device the first number that is free, so without one card those after it get
other names. [Linux drivers/infiniband/core/device.c, alloc_name]
"""

from __future__ import annotations

import re

# Drivers' own patterns: "mlx5_%d", "mlx5_bond_%d", "bnxt_re%d", "irdma%d", "ionic_%d".
_COUNTED = re.compile(r"(mlx[45]_(?:bond_)?|bnxt_re(?:_bond)?|irdma|ionic_)\d+")


def warnings(listed: list[str], there: list[str]) -> list[str]:
    """Return a message if a device that is not listed could get a listed one's name.

    Args:
        listed: names that the site lists.
        there: the node's RDMA devices.

    """
    counters = {_counter(name) for name in listed} - {""}
    others = [name for name in there if name not in listed and _counter(name) in counters]
    if not others:
        return []
    return [
        "nccl_ib_hca: the kernel counts {}, and also {}: without one card, these get other names. "
        "Remove nccl_ib_hca, as the rails' devices are found, or name them by udev rules "
        "(rdma_rename %k NAME_FIXED) unlike the kernel".format(
            ", ".join(name for name in listed if _counter(name)), ", ".join(others)
        )
    ]


def _counter(name: str) -> str:
    found = _COUNTED.fullmatch(name)
    return found[1] if found else ""
