"""Whether a node has what GPUDirect RDMA by dma-buf needs. Runs on the node.

Linux has dma-buf for RDMA from 5.12 on (RDMA/umem 368c0159d492), but the number of a distribution's
kernel does not tell what was backported to it, nor what OFED's drivers have. So drivers are asked,
and what kallsyms has only explains their answer.
[NVIDIA GPU Operator documentation, GPUDirect RDMA: platform support]
"""

from __future__ import annotations

from ..kmod import modprobe, symbols
from ..machine import Machine
from ..plan import NotYet
from ..rails import Rail
from . import verbs

_VERSION = "/proc/driver/nvidia/version"
_RELEASE = "/proc/sys/kernel/osrelease"
# Of ib_uverbs, which every driver that takes dma-buf memory calls.
_SYMBOL = "ib_umem_dmabuf_get"


def obstacle(machine: Machine, rails: list[Rail]) -> str:
    """Return why dma-buf cannot be used, empty if it can.

    Raises:
        NotYet: a driver is not there that decides it.
        NodeError: it is unknown.
    """
    for rail in rails:
        if not rail.rdma:
            raise NotYet(f"rail {rail.index}: there is no RDMA device on {rail.netdev}")
        why = _driver_obstacle(machine, rail.rdma)
        if why:
            return f"rail {rail.index}: {why}{_lacking(machine)}"
    flavour, where = gpu_module(machine)
    return "" if flavour == "open" else f"the nvidia module is the proprietary one ({where})"


def _lacking(machine: Machine) -> str:
    """Return that the RDMA drivers that run have no dma-buf at all, empty if they have."""
    loaded = machine.exists("/sys/module/ib_uverbs")
    if not loaded or symbols.has_symbol(machine, _SYMBOL) is not False:
        return ""
    release = machine.value(_RELEASE) or "that runs"
    return f"; the RDMA drivers of kernel {release} have no {_SYMBOL} ({symbols.FILE})"


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
