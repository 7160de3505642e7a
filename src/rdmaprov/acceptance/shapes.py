"""What the programs on a node answer to accept: their documents' shapes."""

from __future__ import annotations

from rdmaprov.boundary import (
    Check,
    boolean,
    fields,
    integer,
    list_of,
    mapping_to,
    message,
    number,
    text,
)

_NAME = text(most=64)
_COUNTERS = mapping_to(integer(), text(most=128))
# 20 bytes on InfiniBand.
_MAC = text(r"([0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5,19})?")
_NEIGHBOR = fields({"state": text("[A-Z]{0,16}"), "mac": _MAC})
_RAIL = fields(
    {
        "mac": _MAC,
        "netdev": _NAME,
        "there": boolean,
        "carrier": boolean,
        "addresses": list_of(text(r"[0-9a-fA-F.:]{2,45}"), 256),
        "rdma": _NAME,
        "state": _NAME,
        "counters": _COUNTERS,
    },
    optional=["mac"],
)
# Empty where nvidia-smi has no number, such as for memory that GPU and CPU share.
_MIB = text(r"([0-9]{1,9}(\.[0-9]+)?)?")
_GPU = fields(
    {
        "index": text("[0-9]{1,3}"),
        "name": text(most=256),
        "total_mib": _MIB,
        "free_mib": _MIB,
        "mig": boolean,
    },
    optional=["mig"],
)
_PROCESSES = list_of(message, 4096)
_GPUS = fields(
    {
        "gpus": list_of(_GPU, 256),
        "lost": list_of(message, 512),
        "processes": _PROCESSES,
        "error": message,
    },
    optional=["processes", "lost"],
)
_VERSION = text(most=256)
_TORCH = {"python": _VERSION, "torch": _VERSION, "nccl": _VERSION, "error": message}
STARTED = fields({"directory": text(most=256)})
STOPPED = fields({"left": list_of(integer(1, 1 << 22), 4096)})  # PID_MAX_LIMIT of the kernel


def _counted(rails: int) -> dict[str, Check]:
    return {
        "time": number(1 << 40),
        "rails": list_of(_RAIL, rails, least=rails),
        "others": mapping_to(integer(), _NAME),
    }


def counters(rails: int) -> Check:
    """Check the counters of a node with this number of rails."""
    return fields({**_counted(rails), "processes": _PROCESSES}, optional=["processes"])


def preflight(rails: int) -> Check:
    """Check the preflight of a node with this number of rails."""
    return fields(
        {
            **_counted(rails),
            "torch": fields(_TORCH, optional=_TORCH),
            "gpus": _GPUS,
            "port": integer(1, 65_535),
            "addresses": mapping_to(list_of(text(most=64), 4096), _NAME),
            "hostname": text(most=256),
            "runs": list_of(message, 16),
            "socket_ifname": text(most=256),
        },
        optional=["runs", "socket_ifname"],
    )


def reach(targets: int) -> Check:
    """Check what came of connections to a number of targets."""
    return fields(
        {
            "reach": list_of(message, targets, least=targets),
            "own": list_of(text(most=64), targets, least=targets),
            "pings": list_of(boolean, targets, least=targets),
            "neighbors": list_of(_NEIGHBOR, targets, least=targets),
        },
        optional=["pings", "neighbors"],
    )
