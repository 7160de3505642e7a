"""What an RDMA device can do, asked of its driver as NCCL asks. Runs on the node."""

from __future__ import annotations

import ctypes
import errno
import os

from ..machine import NodeError
from ..plan import NotYet

# What drivers without it answer; any other error means that they looked at the request.
_UNSUPPORTED = (errno.EOPNOTSUPP, errno.EPROTONOSUPPORT)


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
