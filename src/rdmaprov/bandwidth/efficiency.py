"""What healthy fleets reach of the ceiling, as published."""

from __future__ import annotations

from rdmaprov.bandwidth.fabric import Fabric

# The most that was published: two nodes by a ring, 392.7 of 400 GB/s
# (github.com/NVIDIA/nccl-tests/issues/309); NCCL's authors expect 96 % of a NIC (issues/119).
MAX_EFFICIENCY = 0.98
# Most nodes → share of the ceiling that a healthy fleet reaches, at 400G and below it.
# Up to 16 nodes it lies just under the slowest healthy ones of docs/acceptance.md, by which a test
# judges them. Of larger fleets one was found, of 248 nodes, with 88 %; there the steps go down to
# two thirds, which large healthy fleets are said to reach.
STEPS = (
    (2, 0.85, 0.85),
    (16, 0.80, 0.78),
    (64, 0.75, 0.73),
    (256, 0.70, 0.70),
    (None, 0.65, 0.65),
)


def efficiency(fabric: Fabric) -> float:
    """Return which share of the ceiling a healthy fleet of this size and rate reaches."""
    for nodes, fast, slow in STEPS:
        if nodes is None or fabric.nodes <= nodes:
            return fast if fabric.link_gbps >= 400 else slow
    raise AssertionError  # the last step has no end


def fleet_sizes(fabric: Fabric) -> str:
    """Return which fleets the share is of, such as `3 to 16 nodes at 400G and more`."""
    low = 2
    rate = "at 400G and more" if fabric.link_gbps >= 400 else "below 400G"
    for nodes, _fast, _slow in STEPS:
        if nodes is None:
            return f"more than {low - 1} nodes {rate}"
        if fabric.nodes <= nodes:
            return f"{nodes} nodes {rate}" if low == nodes else f"{low} to {nodes} nodes {rate}"
        low = nodes + 1
    raise AssertionError
