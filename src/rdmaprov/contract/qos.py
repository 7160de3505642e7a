"""RoCE data is lossless on one priority; CNPs use another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rdmaprov.contract.rule import Rule, Violation, is_roce
from rdmaprov.inventory.model import Node

_LOSSLESS = "fabric_lossless_priority"
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


def _dscp_priority(node: Node, dscp_name: str, priority_name: str) -> Iterator[Violation]:
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


def _roce_dscp_priority(node: Node) -> Iterator[Violation]:
    return _dscp_priority(node, "fabric_roce_dscp", _LOSSLESS)


def _cnp_dscp_priority(node: Node) -> Iterator[Violation]:
    return _dscp_priority(node, "fabric_cnp_dscp", "fabric_cnp_priority")


def _pfc_lossless_only(node: Node) -> Iterator[Violation]:
    pfc, lossless = node.get("roce_qos_pfc_priorities"), node.get(_LOSSLESS)
    if is_roce(node) and pfc is not None and lossless is not None and pfc != [lossless]:
        message = f"PFC is {_on(pfc)}, but fabric_lossless_priority is {lossless}"
        remedy = f"write [{lossless}], or remove the line"
        yield Violation("roce_qos_pfc_priorities", message, remedy, (), (_LOSSLESS,))


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
    elif tos & 3 == 0:
        message = "ECN bits are 00 (Not-ECT), so congested switches drop instead of marking"
    elif tos & 3 == 3:
        message = "ECN bits are 11 (CE), which only a congested switch may set"
    else:
        return
    yield Violation("roce_qos_tos", message, f"write {wanted}, or remove the line")


def _trust(node: Node) -> Iterator[Violation]:
    if is_roce(node) and node.get("roce_qos_trust") == "pcp":
        message = "ports trust PCP, but RoCE data is marked by DSCP"
        yield Violation("roce_qos_trust", message, "write dscp, or remove the line")


def _global_pause(node: Node) -> Iterator[Violation]:
    if is_roce(node) and node.get("roce_qos_global_pause") is True:
        message = "a port cannot use global pause and PFC together"
        yield Violation("roce_qos_global_pause", message, "write false, or remove the line")


def _congestion_control(node: Node) -> Iterator[Violation]:
    ecn, lossless = node.get("roce_qos_ecn_priorities"), node.get(_LOSSLESS)
    if is_roce(node) and ecn is not None and lossless is not None and lossless not in ecn:
        message = f"congestion control is {_on(ecn)}, but fabric_lossless_priority is {lossless}"
        remedy = f"write [{lossless}], or remove the line"
        yield Violation("roce_qos_ecn_priorities", message, remedy, (), (_LOSSLESS,))


def _forced_class(node: Node) -> Iterator[Violation]:
    if node.get("roce_qos_force_traffic_class") is True and node.get("ofed_source") == "inbox":
        message = "only OFED can force the traffic class, but ofed_source is inbox"
        remedy = "write false, or ofed_source: doca"
        yield Violation("roce_qos_force_traffic_class", message, remedy)


RULES = (
    Rule("qos.dscp-lossless", "The DSCP of RoCE data maps to the lossless priority.",
         _ROCE, _roce_dscp_priority),
    Rule("qos.dscp-cnp", "The DSCP of CNPs maps to the priority of CNPs.",
         _ROCE, _cnp_dscp_priority),
    Rule("qos.pfc-one", "PFC is on for the lossless priority and for no other.",
         _ROCE, _pfc_lossless_only),
    Rule("qos.pfc-cnp", "PFC is off for the priority of CNPs.", _ROCE, _pfc_off_for_cnp),
    Rule("qos.cnp-priority", "CNPs have another priority than RoCE data.", _ROCE, _cnp_priority),
    Rule("qos.cnp-dscp", "CNPs have another DSCP than RoCE data.", _ROCE, _cnp_dscp_differs),
    Rule("qos.tos", "The type of service has the DSCP of RoCE data and ECN bits 01 or 10 (ECT).",
         "RFC 3168, section 5; RFC 2474, section 3", _tos),
    Rule("qos.trust", "Ports trust DSCP, not PCP.", _MLX5_DCB, _trust),
    Rule("qos.pause", "Global pause is off where PFC is on.", _8021Q, _global_pause),
    Rule("qos.ecn", "Congestion control is on for the lossless priority.",
         _ROCE, _congestion_control),
    Rule("qos.force", "The traffic class is forced only with OFED's driver.",
         "MLNX_OFED mlx5_ib: /sys/class/infiniband/*/tc/1/traffic_class", _forced_class),
)  # fmt: skip
