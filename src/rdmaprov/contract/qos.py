"""RoCE data is lossless on one priority; CNPs use another; ETS shares sum to 100."""

from collections.abc import Iterator, Sequence
from functools import partial

from rdmaprov.contract.rule import Rule, Violation, is_roce
from rdmaprov.inventory.model import Node

_LOSSLESS, _ALSO = "fabric_lossless_priority", "fabric_lossless_also"
# IEEE 802.1Q leaves the number to the port; two classes for RoCE are what switches are sold with,
# and mlx5's driver has room for a third in its default buffers.
_MOST_ALSO = 2
_MLX5_DCB = "Linux drivers/net/ethernet/mellanox/mlx5/core/en_dcbnl.c"
_ROCE = "NVIDIA Cumulus Linux, RDMA over Converged Ethernet: lossless mode"
_8021Q = "IEEE 802.1Q-2022, clause 36"


def priority_of(node: Node, dscp: int) -> int:
    """Return the priority that the node's map gives a DSCP; by default, its upper three bits."""
    exceptions = node.get("roce_qos_dscp_priorities") or {}
    found = exceptions.get(dscp, dscp >> 3)
    return found if isinstance(found, int) else -1


def priority_names(priorities: Sequence[int]) -> str:
    """Return priorities in words, such as `priorities 3 and 4`."""
    *others, last = map(str, priorities)
    return f"priorities {', '.join(others)} and {last}" if others else f"priority {last}"


def _on(priorities: Sequence[int]) -> str:
    return f"on for {priority_names(priorities)}" if priorities else "off"


def _dscp_priority(dscp_name: str, priority_name: str, node: Node) -> Iterator[Violation]:
    dscp, priority = node.get(dscp_name), node.get(priority_name)
    if not is_roce(node) or dscp is None or priority is None or _is_dscp_shared(node):
        return
    if node.get("roce_qos_dscp_priorities") is None or priority_of(node, dscp) == priority:
        return
    yield Violation(
        "roce_qos_dscp_priorities",
        f"DSCP {dscp} ({dscp_name}) has priority {priority_of(node, dscp)}, "
        f"but {priority_name} is {priority}",
        f"write {dscp}: {priority} in roce_qos_dscp_priorities",
        (dscp,),
        (dscp_name, priority_name),
    )


def lossless_priorities(node: Node) -> list[int]:
    """Return the priorities that the site calls lossless, RoCE data's first; empty if invalid."""
    lossless = node.get(_LOSSLESS)
    return [] if lossless is None else [lossless, *(node.get(_ALSO) or [])]


def _pfc_lossless_only(node: Node) -> Iterator[Violation]:
    pfc, lossless = node.get("roce_qos_pfc_priorities"), sorted(set(lossless_priorities(node)))
    # None at all is lossy RoCE, which `qos.ecn` looks at.
    if is_roce(node) and pfc and lossless and sorted(pfc) != lossless:
        seen = f"{_LOSSLESS} is {node.get(_LOSSLESS)}"
        if node.get(_ALSO):
            seen += f" and {_ALSO} is {node.get(_ALSO)}"
        remedy = f"write {lossless}, or remove the line"
        extra = [each for each in pfc if each not in lossless]
        if extra and not node.get(_ALSO):
            remedy += f"; {_ALSO}: {extra} if the switches carry that without loss, too"
        message = f"PFC is {_on(pfc)}, but {seen}"
        yield Violation("roce_qos_pfc_priorities", message, remedy, (), (_LOSSLESS, _ALSO))


def _further_lossless(node: Node) -> Iterator[Violation]:
    also = node.get(_ALSO) or []
    if not is_roce(node):
        return
    for index, priority in enumerate(also):
        if priority in (node.get(_LOSSLESS), node.get("fabric_cnp_priority"), *also[:index]):
            message = f"priority {priority} is RoCE data's or the CNPs', or is listed before"
            yield Violation(_ALSO, message, "write another priority, such as 4", (index,))
    if len(also) > _MOST_ALSO:
        message = f"{len(also)} further lossless priorities are more than a port has buffers for"
        yield Violation(_ALSO, message, f"write at most {_MOST_ALSO}")


def _pfc_off_for_cnp(node: Node) -> Iterator[Violation]:
    pfc, cnp = node.get("roce_qos_pfc_priorities"), node.get("fabric_cnp_priority")
    if is_roce(node) and pfc and cnp in pfc and cnp != node.get(_LOSSLESS):
        message = f"PFC is on for priority {cnp}, which carries CNPs"
        remedy = f"remove {cnp} from the list"
        yield Violation("roce_qos_pfc_priorities", message, remedy, (pfc.index(cnp),))


def _cnp_priority(node: Node) -> Iterator[Violation]:
    cnp, lossless = node.get("fabric_cnp_priority"), node.get(_LOSSLESS)
    if is_roce(node) and cnp is not None and cnp == lossless:
        message = f"CNPs and RoCE data both have priority {cnp}, so PFC would pause CNPs"
        yield _instead(cnp, ("fabric_cnp_priority", 6), (_LOSSLESS, 3), message)


def _cnp_dscp_differs(node: Node) -> Iterator[Violation]:
    if is_roce(node) and _is_dscp_shared(node):
        dscp = node.get("fabric_cnp_dscp")
        message = f"CNPs and RoCE data both have DSCP {dscp}"
        yield _instead(dscp, ("fabric_cnp_dscp", 48), ("fabric_roce_dscp", 26), message)


def _is_dscp_shared(node: Node) -> bool:
    dscp = node.get("fabric_cnp_dscp")
    return dscp is not None and dscp == node.get("fabric_roce_dscp")


def _instead(seen: int, cnp: tuple[str, int], data: tuple[str, int], message: str) -> Violation:
    """Return the violation at the variable that does not have its usual value."""
    (wrong, usual), (right, _) = (data, cnp) if seen == cnp[1] else (cnp, data)
    return Violation(wrong, message, f"write another value, such as {usual}", (), (right,))


def _tos(node: Node) -> Iterator[Violation]:
    tos, dscp = node.get("roce_qos_tos"), node.get("fabric_roce_dscp")
    if not is_roce(node) or tos is None or dscp is None:
        return
    wanted = dscp << 2 | 2
    if tos >> 2 != dscp:
        message = f"{tos} is DSCP {tos >> 2}, but fabric_roce_dscp is {dscp}"
    elif tos & 3 == 3:
        message = "ECN bits are 11 (CE), which only a congested switch may set"
    else:
        return
    yield Violation("roce_qos_tos", message, f"write {wanted}, or remove the line")


def _trust(node: Node) -> Iterator[Violation]:
    if not is_roce(node) or node.get("roce_qos_trust") != "pcp":
        return
    untagged = [rail.index for rail in node.rails if not rail.vlan]
    sl, lossless = node.get("nccl_ib_sl"), node.get(_LOSSLESS)
    if untagged:
        message = f"ports trust PCP, but rail {untagged[0]} has no VLAN tag to carry it"
        remedy = "write dscp, or vlan: true for rails whose network device is a VLAN"
        yield Violation("roce_qos_trust", message, remedy)
    elif sl is not None and sl != lossless:
        message = f"nccl_ib_sl is {sl}, which is the priority of the VLAN's tag; {_LOSSLESS} is "
        message += f"{lossless}"
        yield Violation("nccl_ib_sl", message, f"write {lossless}", (), ("roce_qos_trust",))


def _global_pause(node: Node) -> Iterator[Violation]:
    if is_roce(node) and node.get("roce_qos_global_pause") is True:
        message = "a port cannot use global pause and PFC together"
        yield Violation("roce_qos_global_pause", message, "write false, or remove the line")


def _congestion_control(node: Node) -> Iterator[Violation]:
    ecn, lossless = node.get("roce_qos_ecn_priorities"), node.get(_LOSSLESS)
    if not is_roce(node) or ecn is None or lossless is None or lossless in ecn:
        return
    pfc = node.get("roce_qos_pfc_priorities")
    if ecn or pfc == []:  # with PFC alone, a site writes an empty list
        message = f"congestion control is {_on(ecn)}, but fabric_lossless_priority is {lossless}"
        message += "" if ecn else ", and PFC is off, too"
        remedy = f"write [{lossless}], or remove the line"
        if not ecn:
            remedy += "; or, for a lab without QoS, waive the rule (fabric_waivers)"
        yield Violation("roce_qos_ecn_priorities", message, remedy, (), (_LOSSLESS,))


def _unmarked(node: Node) -> Iterator[Violation]:
    """Yield that traffic which nobody marked shares what is RoCE's or the CNPs'."""
    dscps = {name: node.get(name) for name in ("fabric_roce_dscp", "fabric_cnp_dscp")}
    trusts_dscp = node.get("roce_qos_trust") != "pcp"
    if not is_roce(node) or not node.get("roce_qos_pfc_priorities"):
        return
    for name, dscp in dscps.items() if trusts_dscp else ():
        if dscp == 0:
            what = "RoCE data has" if name == "fabric_roce_dscp" else "CNPs have"
            message = f"{what} DSCP 0, which all unmarked traffic has, and shares its priority"
            yield Violation(name, message, "write another DSCP, such as 26 for data, 48 for CNPs")
            return
    lossless, seen = lossless_priorities(node), priority_of(node, 0) if trusts_dscp else 0
    if seen in lossless:
        message = f"unmarked traffic has priority {seen}, which is lossless"
        yield Violation(_LOSSLESS, message, "write another priority, such as 3", (), (_ALSO,))


def _forced_class(node: Node) -> Iterator[Violation]:
    if node.get("roce_qos_force_traffic_class") is True and node.get("ofed_source") == "inbox":
        message = "only OFED can force the traffic class, but ofed_source is inbox"
        remedy = "write false, or ofed_source: doca"
        yield Violation("roce_qos_force_traffic_class", message, remedy)


# What they find is no mistake for certain: `check` says it, and refuses nothing.
NOTES = frozenset({"qos.unmarked"})
RULES = (
    Rule("qos.dscp-lossless", "The DSCP of RoCE data maps to the lossless priority.",
         _ROCE, partial(_dscp_priority, "fabric_roce_dscp", _LOSSLESS)),
    Rule("qos.dscp-cnp", "The DSCP of CNPs maps to the priority of CNPs.",
         _ROCE, partial(_dscp_priority, "fabric_cnp_dscp", "fabric_cnp_priority")),
    Rule("qos.pfc-one", "PFC is on for the lossless priorities and for no other, or off.",
         _ROCE, _pfc_lossless_only),
    Rule("qos.lossless-also", "Further lossless priorities are neither RoCE data's nor the CNPs'.",
         _8021Q, _further_lossless),
    Rule("qos.pfc-cnp", "PFC is off for the priority of CNPs.", _ROCE, _pfc_off_for_cnp),
    Rule("qos.cnp-priority", "CNPs have another priority than RoCE data.", _ROCE, _cnp_priority),
    Rule("qos.cnp-dscp", "CNPs have another DSCP than RoCE data.", _ROCE, _cnp_dscp_differs),
    Rule("qos.tos", "The type of service has the DSCP of RoCE data, and no CE mark.",
         "RFC 3168, section 5; Linux drivers/infiniband/hw/mlx5/qp.c: the ECN bits are not taken",
         _tos),
    Rule("qos.trust", "Ports trust DSCP, or PCP where all rails are VLANs and NCCL sets it.",
         f"{_MLX5_DCB}; drivers/infiniband/hw/mlx5/qp.c: eth_prio", _trust),
    Rule("qos.pause", "Global pause is off where PFC is on.", _8021Q, _global_pause),
    Rule("qos.ecn", "Congestion control is on for RoCE data's priority, or PFC is without it.",
         _ROCE, _congestion_control),
    Rule("qos.unmarked", "A note: traffic without a mark is not lossless, and no CNP's.",
         "RFC 2474, section 4.1: DSCP 0 is the default; IEEE 802.1Q, 6.9.3: priority 0",
         _unmarked),
    Rule("qos.force", "The traffic class is forced only with OFED's driver.",
         "MLNX_OFED mlx5_ib: /sys/class/infiniband/*/tc/1/traffic_class", _forced_class),
)  # fmt: skip


_SHARES = "roce_qos_tc_percent"
_8021Q_ETS = "IEEE 802.1Q-2022, clause 37; iproute2 dcb/dcb_ets.c"
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


ETS_RULES = (
    Rule("ets.sum", "Each ETS share is 1 to 100 percent, and they sum to 100.",
         _8021Q_ETS, _share_sum),
    Rule("ets.strict", "A strict class has no ETS share.", _8021Q_ETS, _strict_shares),
    Rule("ets.lossless-alone", "No other priority shares the class of a lossless priority.",
         _8021Q_ETS, _lossless_class),
    Rule("ets.served", "The class that carries RoCE data has a share or is strict.",
         _8021Q_ETS, _roce_share),
    Rule("ets.buffers", "Each buffer that a priority uses has a size, if any sizes are set.",
         "iproute2 man dcb-buffer.8", _buffers),
    Rule("qos.dcqcn", "Every DCQCN parameter exists in mlx5.",
         "Linux drivers/infiniband/hw/mlx5/cong.c", _dcqcn_parameters),
)  # fmt: skip
