"""Numbers within their bounds."""

from collections.abc import Iterator
from typing import Any

from rdmaprov.contract.node import MOST_GPUS
from rdmaprov.contract.rule import Rule, Violation
from rdmaprov.inventory.model import Node

_PRIORITY, _DSCP = (0, 7), (0, 63)
# Variable → lowest and highest value; for a list, of each item.
VALUES: dict[str, tuple[float, float]] = {
    "fabric_lossless_priority": _PRIORITY,
    "fabric_lossless_also": _PRIORITY,
    "fabric_cnp_priority": _PRIORITY,
    "fabric_roce_dscp": _DSCP,
    "fabric_cnp_dscp": _DSCP,
    "fabric_service_level": (0, 15),
    "fabric_oversubscription": (1, 100),
    "fabric_floor_gb_s": (0, 100_000),
    "fabric_certificate_days": (1, 3650),
    "fabric_pull_ring": (0, 1000),
    "fabric_certificate_drains": (0, 100),
    "fabric_gpu_count": (0, MOST_GPUS),
    "fabric_gpu_power_limit_w": (0, 10_000),
    "fabric_numa_nodes": (1, 64),
    "fabric_memory_bytes": (1 << 28, 1 << 50),
    "fabric_guard_revert_s": (10, 3600),
    "gpu_health_timeout_s": (1, 3600),
    "hugepages_2m_count": (0, 1 << 30),
    "hugepages_1g_count": (0, 1 << 20),
    "hugepages_2m_per_numa_node": (0, 1 << 30),
    "hugepages_1g_per_numa_node": (0, 1 << 20),
    "hugepages_512m_count": (0, 1 << 20),
    "hugepages_16g_count": (0, 1 << 20),
    "hugepages_512m_per_numa_node": (0, 1 << 20),
    "hugepages_16g_per_numa_node": (0, 1 << 20),
    "hugepages_left_bytes": (0, 1 << 50),
    "nccl_ib_tc": (0, 255),
    "nccl_ib_sl": (0, 15),
    "nccl_ib_gid_index": (-1, 255),
    "reboot_timeout_s": (60, 7200),
    "roce_qos_cable_length_m": (1, 999),
    "roce_qos_ecn_priorities": _PRIORITY,
    "roce_qos_pfc_priorities": _PRIORITY,
    "roce_qos_tc_strict": _PRIORITY,
    "roce_qos_tos": (0, 255),
    "scheduler_wait_s": (0, 604_800),  # a week: no longer than jobs
    "torch_runtime_acceptance_port": (0, 65_535),
}
# Dictionary → bounds of its keys, and of its values.
PAIRS: dict[str, tuple[tuple[int, int], tuple[int, int]]] = {
    "roce_qos_dscp_priorities": (_DSCP, _PRIORITY),
    "roce_qos_priority_tc": (_PRIORITY, _PRIORITY),
    "roce_qos_tc_percent": (_PRIORITY, (0, 100)),
    "roce_qos_priority_buffer": (_PRIORITY, _PRIORITY),
    "roce_qos_buffer_bytes": (_PRIORITY, (0, 1 << 30)),
}


def _is_outside(value: Any, bounds: tuple[float, float]) -> bool:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return not number or not bounds[0] <= value <= bounds[1]


def _violation(
    name: str, value: Any, bounds: tuple[float, float], path: tuple[Any, ...]
) -> Violation:
    low, high = (f"{bound:g}" if bound < 1 << 20 else str(int(bound)) for bound in bounds)
    shown = f"{value:g}" if isinstance(value, float) else value
    return Violation(name, f"{shown} is outside {low} to {high}", f"write {low} to {high}", path)


def _values(node: Node) -> Iterator[Violation]:
    for name, bounds in VALUES.items():
        value = node.get(name)
        if isinstance(value, list):
            for index, item in enumerate(value):
                if _is_outside(item, bounds):
                    yield _violation(name, item, bounds, (index,))
        elif value is not None and _is_outside(value, bounds):
            yield _violation(name, value, bounds, ())


def _pairs(node: Node) -> Iterator[Violation]:
    for name, (keys, values) in PAIRS.items():
        for key, value in (node.get(name) or {}).items():
            if _is_outside(key, keys):
                yield _violation(name, key, keys, (key,))
            if _is_outside(value, values):
                yield _violation(name, value, values, (key,))


def _tables(node: Node) -> Iterator[Violation]:
    base = node.get("fabric_routing_table_base")
    if base is None:
        return
    last = base + max(len(node.rails), 1) - 1
    if base < 1 or last > 2**31 or (base <= 255 and last >= 253):
        message = f"tables {base} to {last} include the kernel's own (253 to 255)"
        yield Violation("fabric_routing_table_base", message, "write 1000")


RULES = (
    Rule("range.value", "Numbers are within their bounds: priorities 0 to 7, DSCPs 0 to 63.",
         "IEEE 802.1Q-2022; RFC 2474; NCCL docs, env.rst", _values),
    Rule("range.pair", "Keys and values of the QoS maps are valid priorities, classes or DSCPs.",
         "IEEE 802.1Q-2022; RFC 2474", _pairs),
    Rule("range.tables", "The rails' routing tables do not include the kernel's own.",
         "iproute2 etc/iproute2/rt_tables", _tables),
)  # fmt: skip
