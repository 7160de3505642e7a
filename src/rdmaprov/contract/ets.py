"""Traffic classes: ETS shares sum to 100, and lossless data has a class of its own."""

from __future__ import annotations

from collections.abc import Iterator

from rdmaprov.contract.qos import lossless_priorities, priority_names
from rdmaprov.contract.rule import Rule, Violation, is_roce
from rdmaprov.inventory.model import Node

_SHARES = "roce_qos_tc_percent"
_8021Q = "IEEE 802.1Q-2022, clause 37; iproute2 dcb/dcb_ets.c"
# Linux drivers/infiniband/hw/mlx5/cong.c
DCQCN = (
    "rp_clamp_tgt_rate",
    "rp_clamp_tgt_rate_ati",
    "rp_time_reset",
    "rp_byte_reset",
    "rp_threshold",
    "rp_ai_rate",
    "rp_max_rate",
    "rp_hai_rate",
    "rp_min_dec_fac",
    "rp_min_rate",
    "rp_rate_to_set_on_first_cnp",
    "rp_dce_tcp_g",
    "rp_dce_tcp_rtt",
    "rp_rate_reduce_monitor_period",
    "rp_initial_alpha_value",
    "rp_gd",
    "np_min_time_between_cnps",
)
_DCQCN_OWN = {
    "np_cnp_dscp": "fabric_cnp_dscp",
    "np_cnp_prio": "fabric_cnp_priority",
    "np_cnp_prio_mode": "fabric_cnp_priority",
}


def _share_sum(node: Node) -> Iterator[Violation]:
    shares = node.get(_SHARES)
    if not is_roce(node) or shares is None:
        return
    wrong = [tc for tc, share in shares.items() if not isinstance(share, int) or share < 1]
    for tc in wrong:
        remedy = "write a share of 1 to 100, or remove the class"
        yield Violation(_SHARES, f"class {tc} has a share of {shares[tc]} percent", remedy, (tc,))
    total = 0 if wrong else sum(shares.values())
    if not wrong and total != 100:
        remedy = "write shares that sum to 100"
        yield Violation(_SHARES, f"the shares sum to {total}, not 100 percent", remedy)


def _strict_shares(node: Node) -> Iterator[Violation]:
    shares, strict = node.get(_SHARES), node.get("roce_qos_tc_strict")
    if not is_roce(node) or shares is None or strict is None:
        return
    for tc in shares:
        if tc in strict:
            message = f"class {tc} has a share, but is also in roce_qos_tc_strict"
            remedy = f"remove class {tc} from one of the two"
            yield Violation(_SHARES, message, remedy, (tc,))


def _lossless_class(node: Node) -> Iterator[Violation]:
    classes, lossless = node.get("roce_qos_priority_tc"), node.get("fabric_lossless_priority")
    if not is_roce(node) or classes is None or lossless is None:
        return
    for priority in lossless_priorities(node):
        mine = classes.get(priority, 0)
        others = [p for p in range(8) if p != priority and classes.get(p, 0) == mine]
        if others:
            message = f"lossless priority {priority} shares class {mine} with "
            message += priority_names(others)
            remedy = "give the lossless priority a class of its own"
            blame = ("fabric_lossless_priority", "fabric_lossless_also")
            yield Violation("roce_qos_priority_tc", message, remedy, (priority,), blame)


def _roce_share(node: Node) -> Iterator[Violation]:
    classes, shares = node.get("roce_qos_priority_tc"), node.get(_SHARES)
    strict, lossless = node.get("roce_qos_tc_strict"), node.get("fabric_lossless_priority")
    if not is_roce(node) or classes is None or shares is None or strict is None:
        return
    mine = classes.get(lossless, 0)
    if mine not in shares and mine not in strict:
        message = f"class {mine} carries RoCE data, but has no share and is not strict"
        remedy = f"add {mine}: 50, and reduce the other shares"
        yield Violation(_SHARES, message, remedy, (), ("fabric_lossless_priority",))


def _dcqcn_parameters(node: Node) -> Iterator[Violation]:
    for name in node.get("roce_qos_dcqcn") or {}:
        if name in DCQCN:
            continue
        if name in _DCQCN_OWN:
            message, remedy = f"{name} has its own variable", f"set {_DCQCN_OWN[name]} instead"
        else:
            message = f"{name} is not a DCQCN parameter of mlx5"
            remedy = f"write one of {', '.join(DCQCN)}"
        yield Violation("roce_qos_dcqcn", message, remedy, (name,))


def _buffers(node: Node) -> Iterator[Violation]:
    sizes, priorities = node.get("roce_qos_buffer_bytes"), node.get("roce_qos_priority_buffer")
    for priority, buffer in (priorities or {}).items():
        if sizes and buffer not in sizes:
            message = f"priority {priority} uses buffer {buffer}, which has no size"
            others = " or ".join(map(str, sorted(sizes)))
            remedy = f"write {others}, or add buffer {buffer} to roce_qos_buffer_bytes"
            yield Violation("roce_qos_priority_buffer", message, remedy, (priority,))


RULES = (
    Rule("ets.sum", "Each ETS share is 1 to 100 percent, and they sum to 100.",
         _8021Q, _share_sum),
    Rule("ets.strict", "A strict class has no ETS share.", _8021Q, _strict_shares),
    Rule("ets.lossless-alone", "No other priority shares the class of a lossless priority.",
         _8021Q, _lossless_class),
    Rule("ets.served", "The class that carries RoCE data has a share or is strict.",
         _8021Q, _roce_share),
    Rule("ets.buffers", "Each buffer that a priority uses has a size, if any sizes are set.",
         "iproute2 man dcb-buffer.8", _buffers),
    Rule("qos.dcqcn", "Every DCQCN parameter exists in mlx5.",
         "Linux drivers/infiniband/hw/mlx5/cong.c", _dcqcn_parameters),
)  # fmt: skip
