"""Partition keys, service level and subnet prefixes of InfiniBand rails."""

from collections.abc import Iterator, Sequence

from rdmaprov.contract.rails import PLAN
from rdmaprov.contract.rule import FleetRule, Rule, Violation, is_roce
from rdmaprov.inventory import partitions
from rdmaprov.inventory.model import Node, Rail

_MODE, _PARAMETERS = "fabric_ipoib_mode", "mlx5_module_parameters"
_NAME_BYTES, _SUFFIX_BYTES = 15, len(".8002")
# EDR came with ConnectX-4, the first with enhanced IPoIB; older cards end at FDR, 56 Gb/s.
_ENHANCED_GBPS = 100
_KEYS, _RAILS = "fabric_partition_keys", "fabric_rails"
_IBTA = "InfiniBand Architecture 1.7, volume 1"


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


IPOIB_RULES = (
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


def _keys(node: Node) -> Iterator[Violation]:
    for variable, path, texts in _written(node):
        seen: dict[int, str] = {}
        for index, text in enumerate(texts):
            key = partitions.partition_key(text)
            if key is None:
                message = f"'{text}' is not a partition key"
                remedy = "write 0x0001 to 0x7fff in quotes, with 0x8000 added for full membership"
                yield Violation(variable, message, f'{remedy}, such as "0x8001"', (*path, index))
            elif seen.setdefault(key & ~partitions.FULL, text) != text:
                message = f"{seen[key & ~partitions.FULL]} and {text} are one partition"
                yield Violation(variable, message, "write it once", (*path, index))


def _written(node: Node) -> Iterator[tuple[str, tuple[str | int, ...], Sequence[str]]]:
    """Yield each list of keys: its variable, its place in it, and the keys."""
    yield _KEYS, (), node.get(_KEYS) or ()
    for rail in node.rails:
        yield _RAILS, (rail.index, "pkeys"), rail.pkeys or ()


def _nccl_key(node: Node) -> Iterator[Violation]:
    text = node.get("nccl_ib_pkey") or ""
    if is_roce(node) or not text:
        return
    key = partitions.partition_key(text)
    if key is None:
        message = f"'{text}' is not a partition key"
        remedy = 'write one of fabric_partition_keys in quotes, such as "0x8001"'
        if "nccl_ib_pkey" in node.written:
            yield Violation("nccl_ib_pkey", message, remedy)
        return
    rail = next((each for each in node.compute_rails if not _has(node, each, key)), None)
    if rail is not None:
        has = ", ".join(map(partitions.shown_key, partitions.partition_keys(node, rail)))
        message = f"NCCL's partition {text} is none of rail {rail.index}, which has {has or 'none'}"
        others = (_KEYS, _RAILS)
        yield Violation("nccl_ib_pkey", message, "write a key that all rails have", (), others)


def _has(node: Node, rail: Rail, key: int) -> bool:
    return key in partitions.partition_keys(node, rail)


def _service_level(node: Node) -> Iterator[Violation]:
    level, own = node.get("fabric_service_level"), node.get("nccl_ib_sl")
    if is_roce(node) or level is None or own is None or level == own:
        return
    message = f"NCCL's service level is {own}, but fabric_service_level is {level}"
    yield Violation("nccl_ib_sl", message, f"write {level}, or remove the line")


def _addresses(node: Node) -> Iterator[Violation]:
    if is_roce(node) or node.get("fabric_ipoib") is not False:
        return
    for rail in node.rails:
        if rail.address is not None:
            message = f"rail {rail.index} has an address, but fabric_ipoib is false"
            yield Violation(_RAILS, message, "remove one of the two", (rail.index, "address"))


def _prefixes(node: Node) -> Iterator[Violation]:
    for rail in node.rails:
        if rail.subnet_prefix and partitions.subnet_prefix(rail.subnet_prefix) is None:
            message = f"'{rail.subnet_prefix}' is not a subnet prefix of 64 bits"
            remedy = 'write it in quotes as opensm does, such as "0xfec0000000000001"'
            yield Violation(_RAILS, message, remedy, (rail.index, "subnet_prefix"))


def _same_prefixes(nodes: Sequence[Node]) -> Iterator[tuple[Node, Violation]]:
    first: dict[tuple[str, int], tuple[Node, int]] = {}
    for node in nodes:
        for plane, rail in node.planes.items():
            prefix = partitions.subnet_prefix(rail.subnet_prefix)
            if is_roce(node) or prefix is None:
                continue
            other, usual = first.setdefault(plane, (node, prefix))
            if prefix != usual:
                message = f"rail {rail.index} has another subnet prefix than on {other.name}"
                remedy = f"write 0x{usual:016x}: rail i of all nodes is one network plane"
                where = (rail.index, "subnet_prefix")
                yield node, Violation(_RAILS, message, remedy, where)


RULES = (
    Rule("partitions.keys", "A partition key is a number of 15 bits that is not 0, and the bit of "
         "its membership; each partition is listed once.", f"{_IBTA}, 10.9.1 and 10.9.3", _keys),
    Rule("partitions.nccl", "NCCL's partition is one of each compute rail's.",
         "NCCL src/transport/net_ib/connect.cc: NCCL_IB_PKEY is one index for all ports",
         _nccl_key),
    Rule("partitions.service-level", "NCCL's data has the fabric's service level.",
         f"NCCL docs, env.rst: NCCL_IB_SL; {_IBTA}, 7.6.5", _service_level),
    Rule("partitions.ipoib", "A rail with an address uses IPoIB.",
         "RFC 4391: IP over InfiniBand", _addresses),
    Rule("partitions.prefix", "A subnet prefix is a number of 64 bits that is not 0.",
         f"{_IBTA}, 4.1.1", _prefixes),
    FleetRule("partitions.prefixes", "Rail i has the same subnet prefix on all nodes.",
              PLAN, _same_prefixes),
)  # fmt: skip
