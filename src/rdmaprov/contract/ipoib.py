"""IPoIB's mode and partitions: where there are some, and what has them."""

from __future__ import annotations

from collections.abc import Iterator

from rdmaprov.contract.rule import Rule, Violation, is_roce
from rdmaprov.inventory import partitions
from rdmaprov.inventory.model import Node, Rail

_MODE, _PARAMETERS = "fabric_ipoib_mode", "mlx5_module_parameters"
_RAILS = "fabric_rails"
_NAME_BYTES, _SUFFIX_BYTES = 15, len(".8002")
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


def _partition_used(node: Node) -> Iterator[Violation]:
    if not is_roce(node) and node.get("fabric_ipoib") is not False:
        return
    why = "fabric_kind is roce" if is_roce(node) else "fabric_ipoib is false"
    for rail in node.rails:
        if rail.ipoib_pkey:
            message = f"rail {rail.index} has ipoib_pkey, but {why}"
            yield Violation(_RAILS, message, "remove one of the two", (rail.index, "ipoib_pkey"))


def _partition_key(node: Node) -> Iterator[Violation]:
    for rail in node.rails if not is_roce(node) else ():
        message, remedy = _wrong_key(node, rail)
        if rail.ipoib_pkey and message:
            yield Violation(_RAILS, message, remedy, (rail.index, "ipoib_pkey"))


def _wrong_key(node: Node, rail: Rail) -> tuple[str, str]:
    """Return what is wrong with the key of a rail's IPoIB interface, and what to write."""
    text, key = rail.ipoib_pkey, partitions.partition_key(rail.ipoib_pkey)
    if key is None:
        return f"'{text}' is not a partition key", 'write it in quotes, such as "0x8002"'
    if not key & partitions.FULL:
        full = partitions.shown_key(key | partitions.FULL)
        return f"{text} lacks the bit of full membership", f'write "{full}"'
    keys = partitions.partition_keys(node, rail)
    if keys and key not in keys:
        has = ", ".join(map(partitions.shown_key, keys))
        return f"{text} is none of rail {rail.index}'s keys, which are {has}", "write one of them"
    return "", ""


def _partition_name(node: Node) -> Iterator[Violation]:
    for rail in node.rails if not is_roce(node) else ():
        key = partitions.partition_key(rail.ipoib_pkey)
        if key is None or not rail.netdev:
            continue
        name = partitions.interface_of(rail.netdev, key)
        if rail.netdev.endswith(name[-_SUFFIX_BYTES:]):
            port = rail.netdev[:-_SUFFIX_BYTES]
            message = f"{rail.netdev} is the interface itself, and netdev is the port's own"
            yield Violation(_RAILS, message, f"write netdev: {port}", (rail.index, "netdev"))
        elif len(name) > _NAME_BYTES:
            message = f"{name} is longer than the {_NAME_BYTES} characters of a device's name"
            remedy = f"give {rail.netdev} a shorter name"
            yield Violation(_RAILS, message, remedy, (rail.index, "netdev"))


RULES = (
    Rule("ipoib.partition-used", "A partition's interface is named where IPoIB is used.",
         "RFC 4391", _partition_used),
    Rule("ipoib.partition-key", "The partition of a rail's IPoIB interface is one of its port's, "
         "with full membership.", "RFC 4391, section 4: the broadcast group's key has this bit; "
         "Linux drivers/infiniband/ulp/ipoib/ipoib_main.c, ipoib_ndo_init, sets it; libnm, "
         "NMSettingInfiniband:p-key", _partition_key),
    Rule("ipoib.partition-name", "A partition's interface has a name that the kernel can give.",
         "Linux drivers/infiniband/ulp/ipoib/ipoib_vlan.c, ipoib_vlan_add; "
         "include/uapi/linux/if.h, IFNAMSIZ", _partition_name),
    Rule("ipoib.used", "IPoIB's mode is stated where IPoIB is used.", "RFC 4391, RFC 4755", _used),
    Rule("ipoib.connected", "Connected mode is where ports have it: not with enhanced IPoIB.",
         "RHEL 9, Configuring IPoIB; MLNX_OFED documentation, IPoIB: ipoib_enhanced", _connected),
)  # fmt: skip
