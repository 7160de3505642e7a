"""Whether a node has what GPUDirect RDMA by dma-buf needs. Runs on the node.

Linux has dma-buf for RDMA from 5.12 on (RDMA/umem 368c0159d492), but the number of a distribution's
kernel does not tell what was backported to it, nor what OFED's drivers have. So drivers are asked,
and what kallsyms has only explains their answer.
[NVIDIA GPU Operator documentation, GPUDirect RDMA: platform support]
"""

from __future__ import annotations

import ctypes
import errno
import os

from ..kmod import modprobe
from ..machine import Machine, NodeError
from ..plan import NotYet
from ..rails import Rail

# What drivers without it answer; any other error means that they looked at the request.
_UNSUPPORTED = (errno.EOPNOTSUPP, errno.EPROTONOSUPPORT)
_VERSION = "/proc/driver/nvidia/version"
_RELEASE = "/proc/sys/kernel/osrelease"
# Of ib_uverbs, which every driver that takes dma-buf memory calls.
_SYMBOL = "ib_umem_dmabuf_get"


def dmabuf_obstacle(device: str) -> str:
    """Return why a device cannot register dma-buf memory, empty if it can.

    Registers the descriptor -1, which a driver that can refuses with EBADF.
    [NCCL src/transport/net_ib/gdr.cc: ibDmaBufSupportInitOnce]

    Raises:
        NotYet: there is no such device, or no libibverbs.
        NodeError: the device cannot be asked.
    """
    library = _library()
    if not hasattr(library, "ibv_reg_dmabuf_mr"):
        return "libibverbs is older than rdma-core 34, which has ibv_reg_dmabuf_mr"
    context = _open_device(library, device)
    try:
        domain = library.ibv_alloc_pd(context)
        if not domain:
            raise NodeError(f"{device}: ibv_alloc_pd: {os.strerror(ctypes.get_errno())}")
        ctypes.set_errno(0)
        library.ibv_reg_dmabuf_mr(domain, 0, 0, 0, -1, 0)
        seen = ctypes.get_errno()
        library.ibv_dealloc_pd(domain)
    finally:
        library.ibv_close_device(context)
    if seen in _UNSUPPORTED:
        return f"{device}'s driver does not register dma-buf memory ({os.strerror(seen)})"
    return ""


def _library() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL("libibverbs.so.1", use_errno=True)
    except OSError as error:
        raise NotYet(f"libibverbs is not installed: {error}") from error
    pointer, number = ctypes.c_void_p, ctypes.c_int
    library.ibv_get_device_list.argtypes = [ctypes.POINTER(number)]
    library.ibv_get_device_list.restype = ctypes.POINTER(pointer)
    library.ibv_free_device_list.argtypes = [ctypes.POINTER(pointer)]
    library.ibv_get_device_name.argtypes = [pointer]
    library.ibv_get_device_name.restype = ctypes.c_char_p
    for name in ("ibv_open_device", "ibv_alloc_pd"):
        getattr(library, name).argtypes = [pointer]
        getattr(library, name).restype = pointer
    for name in ("ibv_dealloc_pd", "ibv_close_device"):
        getattr(library, name).argtypes = [pointer]
    if hasattr(library, "ibv_reg_dmabuf_mr"):
        wide, size = ctypes.c_uint64, ctypes.c_size_t
        library.ibv_reg_dmabuf_mr.argtypes = [pointer, wide, size, wide, number, number]
        library.ibv_reg_dmabuf_mr.restype = pointer
    return library


def _open_device(library: ctypes.CDLL, device: str) -> int:
    devices = library.ibv_get_device_list(None)
    if not devices and ctypes.get_errno() == errno.ENOSYS:
        raise NotYet(
            f"{device}: the kernel offers no verbs to programs. Run on the node: modprobe ib_uverbs"
        )
    if not devices:
        raise NodeError(f"{device}: ibv_get_device_list: {os.strerror(ctypes.get_errno())}")
    try:
        index = 0
        while devices[index]:
            if library.ibv_get_device_name(devices[index]) == device.encode():
                context: int | None = library.ibv_open_device(devices[index])
                if context is None:
                    why = os.strerror(ctypes.get_errno())
                    raise NodeError(f"{device}: ibv_open_device: {why}")
                return context
            index += 1
    finally:
        library.ibv_free_device_list(devices)
    raise NotYet(f"{device}: libibverbs does not know it (ibv_devices); is its provider installed?")


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
    if not loaded or modprobe.has_symbol(machine, _SYMBOL) is not False:
        return ""
    release = machine.value(_RELEASE) or "that runs"
    return f"; the RDMA drivers of kernel {release} have no {_SYMBOL} ({modprobe.KALLSYMS})"


def _driver_obstacle(machine: Machine, device: str) -> str:
    why: str = machine.ask(f"dma-buf of {device}", lambda: dmabuf_obstacle(device))
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
