"""Which ports can have a quality of service. Runs on the node."""

from __future__ import annotations

from ..machine import Machine

_NET = "/sys/class/net/"
# Linux include/uapi/linux/if_arp.h
_ARPHRD_INFINIBAND = "32"


def without_dcb(machine: Machine, netdev: str) -> str:
    """Return why a port cannot have DCB, empty if it could.

    mlx5 gives DCB to the function that owns the port alone (en_dcbnl.c, vport_group_manager).
    """
    if machine.value(f"{_NET}{netdev}/type") == _ARPHRD_INFINIBAND:
        return "its link layer is InfiniBand"
    if machine.exists(f"{_NET}{netdev}/device/physfn"):
        return "it is a virtual function, whose port belongs to the physical one"
    if ".sf." in machine.real(f"{_NET}{netdev}/device"):
        return "it is a subfunction, whose port belongs to the physical one"
    return ""
