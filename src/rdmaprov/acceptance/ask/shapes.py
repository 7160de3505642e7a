"""What the programs on a node answer to accept: their documents' shapes."""

from rdmaprov.boundary import (
    RIGHT,
    WHY,
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
from rdmaprov.node.identity import GPU_KEYS, MACHINE, MOST
from rdmaprov.node.serials import MODULE_KEYS
from rdmaprov.node.standing import VERSION_WORDS

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
        "unfit": WHY,
    },
    optional=["mac", "unfit"],
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
        "took_s": number(1 << 20),
    },
    optional=["processes", "lost", "took_s"],
)
_LINK = list_of(text(r"[\w./ ]{0,32}"), 4, least=4)
_HOPS = list_of(
    fields({"address": text(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"), "link": _LINK}), 32
)
_VERSION = text(most=256)
_PLAIN = text(rf"[ -~]{{0,{MOST}}}")
_NIC = fields(dict.fromkeys(("netdev", "rdma", "pci", "guid", "board", "firmware"), _PLAIN))
_MODULES = list_of(fields(dict.fromkeys(MODULE_KEYS, _PLAIN)), 16)
_LABEL = fields({"part": _PLAIN, "serial": _PLAIN, "why": WHY, "modules": _MODULES})
_CUDA = text(r"[0-9]{1,3}\.[0-9]{1,3}")
_TORCH = {
    **dict.fromkeys(("python", "torch", "nccl"), _VERSION),
    **dict.fromkeys(("cuda", "libcuda"), _CUDA),
    "error": message,
}
STARTED = fields({"directory": text(most=256)})
STOPPED = fields({"left": list_of(integer(1, 1 << 22), 4096)})  # PID_MAX_LIMIT of the kernel


def _counted(rails: int) -> dict[str, Check]:
    return {
        "time": number(1 << 40),
        "rails": list_of(_RAIL, rails, least=rails),
        "others": mapping_to(integer(), _NAME),
        "overflows": mapping_to(integer(), _NAME),
    }


def counters(rails: int) -> Check:
    """Check the counters of a node with this number of rails."""
    made = {**_counted(rails), "processes": _PROCESSES}
    return fields(made, optional=["processes", "overflows"])


# What a node's answer has had since a version, or has where the node has it.
_LATER = ["runs", "boot_id", "socket_ifname", "ib_timeout", "identity", "serials", "slots"]
_LATER += ["overflows", "labels", "lldp"]


def preflight(rails: int) -> Check:
    """Check the preflight of a node with this number of rails."""
    slots = {"rails": list_of(_HOPS, rails, least=rails), "gpus": list_of(_HOPS, 64)}
    return fields(
        {
            **_counted(rails),
            "torch": fields(_TORCH, optional=_TORCH),
            "gpus": _GPUS,
            "port": integer(1, 65_535),
            "addresses": mapping_to(list_of(text(most=64), 4096), _NAME),
            "hostname": text(most=256),
            "runs": list_of(message, 16),
            "boot_id": text(r"[0-9a-f-]{0,36}", 36),
            "socket_ifname": text(most=256),
            "ib_timeout": text(most=256),
            "identity": identity(rails),
            "serials": mapping_to(text(r"[0-9A-Za-z_]{0,64}"), _NAME),
            "labels": list_of(_LABEL, rails, least=rails),
            "lldp": text(r'(\{"lldp": [ -~]*)?', most=65_536),
            "slots": fields({**slots, "direct": boolean}),
        },
        optional=_LATER,
    )


def identity(rails: int) -> Check:
    """Check which hardware and software a node with this number of rails says that it is.

    It is printed, and written into certificates: printable ASCII, as the node's program writes it.
    """
    return fields(
        {
            "machine": fields(dict.fromkeys(MACHINE, _PLAIN)),
            "rails": list_of(_NIC, rails, least=rails),
            "gpus": list_of(fields(dict.fromkeys(GPU_KEYS, _PLAIN)), 64),
            "versions": fields(dict.fromkeys(VERSION_WORDS, _PLAIN)),
        }
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


_NUMA = integer(-1, 9999)
_VERBS_RAIL = fields(
    {
        "device": text(r"[\w.-]{0,64}"),
        "layer": _NAME,
        "rate": _NAME,
        "gid": integer(-1, 65_535),
        "path": _HOPS,
        "numa": _NUMA,
    }
)
_VERBS_GPU = fields({"index": integer(0, 999), "path": _HOPS, "numa": _NUMA})
_PERFTEST = fields({"there": boolean, "help": list_of(message, 400)})
# What a perftest said is kept to its first and last bytes, 4,096 together.
_PERFTEST_END = fields(
    {
        "id": integer(0, 1 << 20),
        "port": integer(0, 65_535),
        "rc": integer(-255, 255),
        "why": text(most=512),
        "out": message,
    }
)
# Of a server that listens, nothing has ended.
_PERFTEST_STATE = fields(
    {
        "id": integer(0, 1 << 20),
        "port": integer(0, 65_535),
        "rc": lambda value: RIGHT if value is None else integer(-255, 255)(value),
        "why": text(most=512),
        "out": message,
    }
)


def path_survey(rails: int, programs: tuple[str, ...]) -> Check:
    """Check what a node with this number of rails has for tests of paths."""
    return fields(
        {
            "programs": fields(dict.fromkeys(programs, _PERFTEST)),
            "peermem": boolean,
            "numa": list_of(integer(0, 9999), 1024),
            "rails": list_of(_VERBS_RAIL, rails, least=rails),
            "gpus": list_of(_VERBS_GPU, 64),
            "configs": mapping_to(text(r"([0-9a-f]{2}){0,4096}", most=8192), text(most=64), 1024),
        }
    )


def path_step(ids: frozenset[int], is_over: bool) -> Check:
    """Check what came of a step: each of these perftests once."""
    check = list_of(_PERFTEST_END if is_over else _PERFTEST_STATE, len(ids), least=len(ids))

    def checked(value: object) -> str | None:
        where = check(value)
        if where is not RIGHT:
            return where
        assert isinstance(value, list)  # noqa: S101 - the check has seen that
        return RIGHT if {each["id"] for each in value} == ids else "id"

    return checked
