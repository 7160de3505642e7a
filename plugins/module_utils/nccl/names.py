"""Whether RDMA devices that a site lists by name keep it when a card is missing. Runs on the node.

The kernel gives a new device the first number that is free, so without one card those after it get
other names. [Linux drivers/infiniband/core/device.c, alloc_name]
"""

from __future__ import annotations

import re
from typing import Any

from ..rails import named_by

# Drivers' own patterns: "mlx5_%d", "mlx5_bond_%d", "bnxt_re%d", "irdma%d", "ionic_%d".
_COUNTED = re.compile(r"(mlx[45]_(?:bond_)?|bnxt_re(?:_bond)?|irdma|ionic_)\d+")
_BY_UDEV = "name them by udev rules (rdma_rename %k NAME_FIXED) unlike the kernel"


def warnings(arguments: dict[str, Any], there: list[str]) -> list[str]:
    """Return a message if a device that is not listed could get a listed one's name.

    Args:
        arguments: those of the role, which may list names in ib_hca or in its rails.
    """
    where, remedy = "nccl_ib_hca", "Remove nccl_ib_hca, as the rails' devices are found"
    listed = arguments["ib_hca"]
    if not listed:
        where, remedy = "fabric_rails", "Write pci in place of rdma"
        listed = [named_by(each).get("rdma", "") for each in arguments["rails"]]
    counters = {_counter(name) for name in listed} - {""}
    others = [name for name in there if name not in listed and _counter(name) in counters]
    if not others:
        return []
    return [
        "{}: the kernel counts {}, and also {}: without one card, these get other names. {}, or "
        "{}".format(
            where,
            ", ".join(name for name in listed if _counter(name)),
            ", ".join(others),
            remedy,
            _BY_UDEV,
        )
    ]


def _counter(name: str) -> str:
    found = _COUNTED.fullmatch(name)
    return found[1] if found else ""
