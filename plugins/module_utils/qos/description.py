"""What the quality of service of a node's ports must be. Runs on the node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..plan import Refused

PRIORITIES = range(8)
DSCPS = range(64)
# mlx5 takes less than MLX5E_MAX_CABLE_LENGTH, 1000 (Linux .../mlx5/core/en_dcbnl.c).
CABLE_LENGTHS_M = range(1, 1000)


@dataclass(frozen=True)
class Description:
    """What each port must be; where there is an entry for each priority or class, eight of them."""

    backend: str
    trust: str
    priorities: tuple[int, ...]  # the priority of each of the 64 DSCPs
    pfc: tuple[bool, ...]
    global_pause: bool
    tsa: tuple[str, ...]  # how each traffic class is served, "strict" or "ets"
    percent: tuple[int, ...]  # each class's share of what the strict ones leave
    classes: tuple[int, ...]
    buffer_bytes: dict[int, int]  # sizes of those receive buffers that have one of ours
    priority_buffer: dict[int, int]  # buffers of those priorities that have one of ours
    cable_length_m: int
    ecn: tuple[bool, ...]  # whether congestion control is on for each priority
    cnp_dscp: int
    cnp_priority: int
    dcqcn: dict[str, int]  # parameters by their names in the kernel's cc_params
    tos: int
    rdma_cm_mode: str
    force_traffic_class: bool
    dcbx: str


def describe(arguments: dict[str, Any]) -> Description:
    """Return what the role's arguments say; raise Refused if no port could be like that."""
    exceptions = _map(arguments, "dscp_priorities", DSCPS, PRIORITIES)
    classes = _map(arguments, "priority_tc", PRIORITIES, PRIORITIES)
    pfc = _flags(arguments, "pfc_priorities")
    strict = _flags(arguments, "tc_strict")
    if arguments["global_pause"] and any(pfc):
        raise Refused(
            "roce_qos_global_pause: a port has PFC or global pause, not both: write "
            "roce_qos_global_pause: false, or roce_qos_pfc_priorities: []"
        )
    return Description(
        backend=arguments["backend"],
        trust=arguments["trust"],
        # What the firmware starts with is the DSCP's upper three bits.
        priorities=tuple(exceptions.get(dscp, dscp >> 3) for dscp in DSCPS),
        pfc=pfc,
        global_pause=arguments["global_pause"],
        tsa=tuple("strict" if each else "ets" for each in strict),
        percent=_shares(arguments, strict),
        classes=tuple(classes.get(priority, 0) for priority in PRIORITIES),
        buffer_bytes=_map(arguments, "buffer_bytes", PRIORITIES, range(1 << 30)),
        priority_buffer=_map(arguments, "priority_buffer", PRIORITIES, PRIORITIES),
        cable_length_m=_within(arguments, "cable_length_m", CABLE_LENGTHS_M),
        ecn=_flags(arguments, "ecn_priorities"),
        cnp_dscp=_within(arguments, "cnp_dscp", DSCPS, "fabric_cnp_dscp"),
        cnp_priority=_within(arguments, "cnp_priority", PRIORITIES, "fabric_cnp_priority"),
        dcqcn={str(name): _int("dcqcn", value) for name, value in arguments["dcqcn"].items()},
        tos=_within(arguments, "tos", range(256)),
        rdma_cm_mode=arguments["rdma_cm_mode"],
        force_traffic_class=arguments["force_traffic_class"],
        dcbx=arguments["dcbx"],
    )


def _shares(arguments: dict[str, Any], strict: tuple[bool, ...]) -> tuple[int, ...]:
    shares = _map(arguments, "tc_percent", PRIORITIES, range(1, 101))
    for tc in shares:
        if strict[tc]:
            raise Refused(
                f"roce_qos_tc_percent: class {tc} is strict, so it has no share: remove it there "
                "or from roce_qos_tc_strict"
            )
    # Without a class that has a share, all are strict. iproute2's dcb and mlx5 check the sum too.
    if sum(shares.values()) != 100 and not (not shares and all(strict)):
        raise Refused(
            f"roce_qos_tc_percent: the shares sum to {sum(shares.values())}, expected 100: {shares}"
        )
    return tuple(shares.get(tc, 0) for tc in PRIORITIES)


def _flags(arguments: dict[str, Any], name: str) -> tuple[bool, ...]:
    for value in arguments[name]:
        _require(name, value, PRIORITIES)
    return tuple(priority in arguments[name] for priority in PRIORITIES)


def _map(arguments: dict[str, Any], name: str, keys: range, values: range) -> dict[int, int]:
    """Return a map of numbers; its keys may be texts, as JSON has them."""
    found = {}
    for key, value in arguments[name].items():
        number, to = _int(name, key), _int(name, value)
        _require(name, number, keys)
        _require(name, to, values)
        found[number] = to
    return found


def _within(arguments: dict[str, Any], name: str, legal: range, variable: str = "") -> int:
    value: int = arguments[name]
    _require(name, value, legal, variable)
    return value


def _require(name: str, value: int, legal: range, variable: str = "") -> None:
    if value not in legal:
        raise Refused(
            f"{variable or 'roce_qos_' + name}: {value} must be {legal[0]} to {legal[-1]}"
        )


def _int(name: str, value: Any) -> int:
    if isinstance(value, bool) or not str(value).isascii() or not str(value).isdigit():
        raise Refused(f"roce_qos_{name}: {value!r} is not a number, write for example 3")
    return int(value)
