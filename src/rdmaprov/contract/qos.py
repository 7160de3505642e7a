"""RoCE is lossless on one priority, and congestion notification on another."""

from __future__ import annotations

from collections.abc import Iterator

from rdmaprov.contract.rule import Finding, Rule, is_roce
from rdmaprov.inventory.model import Node

_LOSSLESS = "fabric_lossless_priority"
_MLX5_DCB = "Linux drivers/net/ethernet/mellanox/mlx5/core/en_dcbnl.c"
_ROCE = "NVIDIA Cumulus Linux, RDMA over Converged Ethernet: lossless mode"
_8021Q = "IEEE 802.1Q-2022, clause 36"


def priority_of(node: Node, dscp: int) -> int:
    """Return the priority that a DSCP has by the node's map: its upper three bits by default."""
    exceptions = node.get("roce_qos_dscp_priorities") or {}
    found = exceptions.get(dscp, dscp >> 3)
    return found if isinstance(found, int) else -1


def _mapped(node: Node, dscp_name: str, priority_name: str) -> Iterator[Finding]:
    dscp, priority = node.get(dscp_name), node.get(priority_name)
    if not is_roce(node) or dscp is None or priority is None:
        return
    if node.get("roce_qos_dscp_priorities") is None or priority_of(node, dscp) == priority:
        return
    yield Finding(
        "roce_qos_dscp_priorities",
        f"DSCP {dscp} ({dscp_name}) has priority {priority_of(node, dscp)}, "
        f"and {priority_name} is {priority}",
        f"write {dscp}: {priority}",
        (dscp,),
        (dscp_name, priority_name),
    )


def _roce_dscp(node: Node) -> Iterator[Finding]:
    return _mapped(node, "fabric_roce_dscp", _LOSSLESS)


def _cnp_dscp(node: Node) -> Iterator[Finding]:
    return _mapped(node, "fabric_cnp_dscp", "fabric_cnp_priority")


def _pfc_one(node: Node) -> Iterator[Finding]:
    pfc, lossless = node.get("roce_qos_pfc_priorities"), node.get(_LOSSLESS)
    if is_roce(node) and pfc is not None and lossless is not None and pfc != [lossless]:
        message = f"PFC on priorities {pfc}, and the lossless one is {lossless}"
        remedy = f"write [{lossless}], or remove the line"
        yield Finding("roce_qos_pfc_priorities", message, remedy, (), (_LOSSLESS,))


def _pfc_cnp(node: Node) -> Iterator[Finding]:
    pfc, cnp = node.get("roce_qos_pfc_priorities"), node.get("fabric_cnp_priority")
    if is_roce(node) and pfc and cnp in pfc and cnp != node.get(_LOSSLESS):
        message = f"PFC on priority {cnp}, which carries congestion notification"
        remedy = f"take {cnp} out of the list"
        yield Finding("roce_qos_pfc_priorities", message, remedy, (pfc.index(cnp),))


def _cnp_apart(node: Node) -> Iterator[Finding]:
    cnp, lossless = node.get("fabric_cnp_priority"), node.get(_LOSSLESS)
    if is_roce(node) and cnp is not None and cnp == lossless:
        message = f"priority {cnp} is the lossless one: PFC would stop congestion notification"
        remedy = "write another priority, such as 6"
        yield Finding("fabric_cnp_priority", message, remedy, (), (_LOSSLESS,))


def _cnp_dscp_apart(node: Node) -> Iterator[Finding]:
    dscp = node.get("fabric_cnp_dscp")
    if is_roce(node) and dscp is not None and dscp == node.get("fabric_roce_dscp"):
        message = f"DSCP {dscp} is also that of RoCE data"
        remedy = "write another DSCP, such as 48"
        yield Finding("fabric_cnp_dscp", message, remedy, (), ("fabric_roce_dscp",))


def _tos(node: Node) -> Iterator[Finding]:
    tos, dscp = node.get("roce_qos_tos"), node.get("fabric_roce_dscp")
    if not is_roce(node) or tos is None or dscp is None:
        return
    wanted = dscp << 2 | 2
    if tos >> 2 != dscp:
        message = f"{tos} is DSCP {tos >> 2}, and fabric_roce_dscp is {dscp}"
    elif tos & 3 not in (1, 2):
        message = (
            f"{tos} does not say that ECN is understood, so switches drop where they could mark"
        )
    else:
        return
    yield Finding("roce_qos_tos", message, f"write {wanted}, or remove the line")


def _trust(node: Node) -> Iterator[Finding]:
    if is_roce(node) and node.get("roce_qos_trust") == "pcp":
        message = "RoCE data is marked by DSCP, and routed packets carry no PCP"
        yield Finding("roce_qos_trust", message, "write dscp, or remove the line")


def _pause(node: Node) -> Iterator[Finding]:
    if is_roce(node) and node.get("roce_qos_global_pause") is True:
        message = "global pause and PFC exclude each other on a port"
        yield Finding("roce_qos_global_pause", message, "write false, or remove the line")


def _ecn(node: Node) -> Iterator[Finding]:
    ecn, lossless = node.get("roce_qos_ecn_priorities"), node.get(_LOSSLESS)
    if is_roce(node) and ecn is not None and lossless is not None and lossless not in ecn:
        message = f"no congestion control on priority {lossless}, which carries RoCE data"
        yield Finding("roce_qos_ecn_priorities", message, f"write [{lossless}]", (), (_LOSSLESS,))


def _force(node: Node) -> Iterator[Finding]:
    if node.get("roce_qos_force_traffic_class") is True and node.get("ofed_source") == "inbox":
        message = "the kernel's own driver cannot force the traffic class"
        remedy = "write false, or ofed_source: doca"
        yield Finding("roce_qos_force_traffic_class", message, remedy)


RULES = (
    Rule("qos.dscp-lossless", "The DSCP of RoCE data has the lossless priority.",
         _ROCE, _roce_dscp),
    Rule("qos.dscp-cnp", "The DSCP of CNPs has the CNPs' priority.", _ROCE, _cnp_dscp),
    Rule("qos.pfc-one", "PFC is on for the lossless priority and no other.", _ROCE, _pfc_one),
    Rule("qos.pfc-cnp", "PFC is never on for the CNPs' priority.", _ROCE, _pfc_cnp),
    Rule("qos.cnp-priority", "CNPs have another priority than RoCE data.", _ROCE, _cnp_apart),
    Rule("qos.cnp-dscp", "CNPs have another DSCP than RoCE data.", _ROCE, _cnp_dscp_apart),
    Rule("qos.tos", "The type of service is the DSCP, and says that ECN is understood.",
         "RFC 3168, section 5; RFC 2474, section 3", _tos),
    Rule("qos.trust", "Ports trust the DSCP.", _MLX5_DCB, _trust),
    Rule("qos.pause", "Global pause is off where PFC is on.", _8021Q, _pause),
    Rule("qos.ecn", "Congestion control is on for RoCE data.", _ROCE, _ecn),
    Rule("qos.force", "Only OFED's driver can force a traffic class.",
         "MLNX_OFED mlx5_ib: /sys/class/infiniband/*/tc/1/traffic_class", _force),
)  # fmt: skip
