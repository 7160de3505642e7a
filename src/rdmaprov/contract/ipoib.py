"""IPoIB's mode: where there is one, and what has a connected one."""

from __future__ import annotations

from collections.abc import Iterator

from rdmaprov.contract.rule import Rule, Violation, is_roce
from rdmaprov.inventory.model import Node

_MODE, _PARAMETERS = "fabric_ipoib_mode", "mlx5_module_parameters"
# EDR came with ConnectX-4, the first with enhanced IPoIB; older cards end at FDR, 56 Gb/s.
_ENHANCED_GBPS = 100


def _used(node: Node) -> Iterator[Violation]:
    mode = node.get(_MODE)
    if mode in (None, "keep") or not (is_roce(node) or node.get("fabric_ipoib") is False):
        return
    why = "fabric_kind is roce" if is_roce(node) else "fabric_ipoib is false"
    yield Violation(_MODE, f"IPoIB's mode is {mode}, but {why}", "remove the line")


def _connected(node: Node) -> Iterator[Violation]:
    if node.get(_MODE) != "connected" or is_roce(node):
        return
    own = (node.get(_PARAMETERS) or {}).get("ib_ipoib") or {}
    is_plain = str(own.get("ipoib_enhanced")) in ("0", "False", "N")
    if (node.get("fabric_link_gbps") or 0) < _ENHANCED_GBPS or (
        is_plain and node.get("ofed_source") != "inbox"
    ):
        return
    message = "ConnectX-4 and later have enhanced IPoIB, which has no connected mode"
    remedy = (
        f"write datagram; or, with drivers of doca or mlnx_ofed, {_PARAMETERS}: "
        "{ib_ipoib: {ipoib_enhanced: 0}}"
    )
    yield Violation(_MODE, message, remedy, (), (_PARAMETERS, "ofed_source"))


RULES = (
    Rule("ipoib.used", "IPoIB's mode is stated where IPoIB is used.", "RFC 4391, RFC 4755", _used),
    Rule("ipoib.connected", "Connected mode is where ports have it: not with enhanced IPoIB.",
         "RHEL 9, Configuring IPoIB; MLNX_OFED documentation, IPoIB: ipoib_enhanced", _connected),
)  # fmt: skip
