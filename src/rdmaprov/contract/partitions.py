"""Partition keys, service level and subnet prefixes of InfiniBand rails."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rdmaprov.contract.rails import PLAN
from rdmaprov.contract.rule import FleetRule, Rule, Violation, is_roce
from rdmaprov.inventory import partitions
from rdmaprov.inventory.model import Node, Rail

_KEYS, _RAILS = "fabric_partition_keys", "fabric_rails"
_IBTA = "InfiniBand Architecture 1.7, volume 1"


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
