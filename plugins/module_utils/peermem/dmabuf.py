"""Whether a node has what GPUDirect RDMA by dma-buf needs. Runs on the node.

[NVIDIA GPU Operator documentation, GPUDirect RDMA: platform support]
"""

from __future__ import annotations

import re

from ..kmod import modprobe
from ..machine import Machine, NodeError
from ..plan import NotYet
from ..rails import Rail
from . import verbs

_KERNEL = (5, 12)
_VERSION = "/proc/driver/nvidia/version"
_RELEASE = "/proc/sys/kernel/osrelease"


def obstacle(machine: Machine, rails: list[Rail]) -> str:
    """Return why dma-buf cannot be used, empty if it can.

    Raises:
        NotYet: a driver is not there that decides it.
        NodeError: it is unknown.

    """
    release = machine.value(_RELEASE) or ""
    found = re.match(r"(\d+)\.(\d+)", release)
    if found is None:
        raise NodeError(f"{_RELEASE} is '{release}', which is not a kernel version")
    if (int(found[1]), int(found[2])) < _KERNEL:
        return f"kernel {release} has no dma-buf for RDMA; 5.12 or later has it ({_RELEASE})"
    for rail in rails:
        if not rail.rdma:
            raise NotYet(f"rail {rail.index}: there is no RDMA device on {rail.netdev}")
        why = _driver_obstacle(machine, rail.rdma)
        if why:
            return f"rail {rail.index}: {why}"
    flavour, where = gpu_module(machine)
    return "" if flavour == "open" else f"the nvidia module is the proprietary one ({where})"


def _driver_obstacle(machine: Machine, device: str) -> str:
    why: str = machine.ask(f"dma-buf of {device}", lambda: verbs.dmabuf_obstacle(device))
    return why


def gpu_module(machine: Machine) -> tuple[str, str]:
    """Return whether the nvidia module is "open" or "proprietary", and where that was read.

    Raises:
        NotYet: it is neither loaded nor installed.

    """
    running = machine.read(_VERSION)
    if running is not None:
        return ("open" if "Open Kernel Module" in running else "proprietary"), _VERSION
    # "NVIDIA", or of the open one "Dual MIT/GPL". [NCCL docs: networking_troubleshooting.rst]
    text = modprobe.info(machine, "nvidia", "-F", "license")
    return ("open" if "GPL" in text else "proprietary"), "modinfo -F license nvidia"
