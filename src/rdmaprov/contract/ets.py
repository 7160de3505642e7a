"""Traffic classes: shares that add up, and a class of its own for lossless data."""

from __future__ import annotations

from collections.abc import Iterator

from rdmaprov.contract.rule import Finding, Rule, is_roce
from rdmaprov.inventory.model import Node

_SHARES = "roce_qos_tc_percent"
_8021Q = "IEEE 802.1Q-2022, clause 37; iproute2 dcb/dcb_ets.c"
# Linux drivers/infiniband/hw/mlx5/cong.c
DCQCN = (
    "rp_clamp_tgt_rate", "rp_clamp_tgt_rate_ati", "rp_time_reset", "rp_byte_reset",
    "rp_threshold", "rp_ai_rate", "rp_max_rate", "rp_hai_rate", "rp_min_dec_fac", "rp_min_rate",
    "rp_rate_to_set_on_first_cnp", "rp_dce_tcp_g", "rp_dce_tcp_rtt",
    "rp_rate_reduce_monitor_period", "rp_initial_alpha_value", "rp_gd",
    "np_min_time_between_cnps",
)  # fmt: skip
_DCQCN_OWN = {
    "np_cnp_dscp": "fabric_cnp_dscp",
    "np_cnp_prio": "fabric_cnp_priority",
    "np_cnp_prio_mode": "fabric_cnp_priority",
}


def _sum(node: Node) -> Iterator[Finding]:
    shares = node.get(_SHARES)
    if not is_roce(node) or shares is None:
        return
    wrong = [tc for tc, share in shares.items() if not isinstance(share, int) or share < 1]
    for tc in wrong:
        remedy = "write 1 to 100, or remove the class"
        yield Finding(_SHARES, f"class {tc} has a share of {shares[tc]} percent", remedy, (tc,))
    total = 0 if wrong else sum(shares.values())
    if not wrong and total != 100:
        remedy = "write shares that sum to 100"
        yield Finding(_SHARES, f"the shares sum to {total} percent", remedy)


def _strict(node: Node) -> Iterator[Finding]:
    shares, strict = node.get(_SHARES), node.get("roce_qos_tc_strict")
    if not is_roce(node) or shares is None or strict is None:
        return
    for tc in shares:
        if tc in strict:
            message = f"class {tc} has a share and is strict, which is served before all shares"
            yield Finding(
                _SHARES, message, f"remove class {tc} here or in roce_qos_tc_strict", (tc,)
            )


def _alone(node: Node) -> Iterator[Finding]:
    classes, lossless = node.get("roce_qos_priority_tc"), node.get("fabric_lossless_priority")
    if not is_roce(node) or classes is None or lossless is None:
        return
    mine = classes.get(lossless, 0)
    others = [p for p in range(8) if p != lossless and classes.get(p, 0) == mine]
    if others:
        message = f"class {mine} carries lossless priority {lossless} and also {others}"
        remedy = "give the lossless priority a class of its own"
        blame = ("fabric_lossless_priority",)
        yield Finding("roce_qos_priority_tc", message, remedy, (lossless,), blame)


def _served(node: Node) -> Iterator[Finding]:
    classes, shares = node.get("roce_qos_priority_tc"), node.get(_SHARES)
    strict, lossless = node.get("roce_qos_tc_strict"), node.get("fabric_lossless_priority")
    if not is_roce(node) or classes is None or shares is None or strict is None:
        return
    mine = classes.get(lossless, 0)
    if mine not in shares and mine not in strict:
        message = f"class {mine}, which carries RoCE data, has no share"
        yield Finding(_SHARES, message, f"write {mine}: 50", (), ("fabric_lossless_priority",))


def _dcqcn(node: Node) -> Iterator[Finding]:
    for name in node.get("roce_qos_dcqcn") or {}:
        if name in DCQCN:
            continue
        if name in _DCQCN_OWN:
            message, remedy = f"{name} has a setting of its own", f"write {_DCQCN_OWN[name]}"
        else:
            message = f"{name} is no parameter of congestion control"
            remedy = f"write one of {', '.join(DCQCN)}"
        yield Finding("roce_qos_dcqcn", message, remedy, (name,))


def _buffers(node: Node) -> Iterator[Finding]:
    sizes, priorities = node.get("roce_qos_buffer_bytes"), node.get("roce_qos_priority_buffer")
    for priority, buffer in (priorities or {}).items():
        if sizes and buffer not in sizes:
            message = f"priority {priority} has buffer {buffer}, which has no size"
            remedy = f"write one of {sorted(sizes)}"
            yield Finding("roce_qos_priority_buffer", message, remedy, (priority,))


RULES = (
    Rule("ets.sum", "ETS shares are 1 to 100 percent and sum to 100.", _8021Q, _sum),
    Rule("ets.strict", "A strict class has no ETS share.", _8021Q, _strict),
    Rule("ets.lossless-alone", "No other priority shares the lossless class.", _8021Q, _alone),
    Rule("ets.served", "The class of RoCE data is strict or has a share.", _8021Q, _served),
    Rule("ets.buffers", "A priority's buffer has a size, where sizes are given.",
         "iproute2 man dcb-buffer.8", _buffers),
    Rule("qos.dcqcn", "Congestion control parameters exist.",
         "Linux drivers/infiniband/hw/mlx5/cong.c", _dcqcn),
)  # fmt: skip
