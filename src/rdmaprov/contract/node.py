"""A node's link rate, MTU and GPUs."""

from __future__ import annotations

from collections.abc import Iterator

from rdmaprov.contract.rule import Rule, Violation, is_roce
from rdmaprov.inventory.model import Node

_IB_TA = "InfiniBand Architecture Specification 1.7, volume 1, PortInfo"
# InfiniBand generation → Gb/s of a port, four lanes wide; HDR100 and NDR200 have two.
GENERATIONS = {
    "SDR": 10, "QDR": 40, "FDR10": 40, "FDR": 56, "EDR": 100, "HDR100": 100, "HDR": 200,
    "NDR200": 200, "NDR": 400, "XDR": 800,
}  # fmt: skip
_IB_ONLY_GBPS = (56,)
_ETHERNET_ONLY_GBPS = (25, 50)
ROCE_MTU_BYTES = 4096
ROCE_HEADER_BYTES = 96  # Linux include/rdma/ib_addr.h: iboe_get_mtu
IPOIB_MOST_BYTES = 4092
MOST_GPUS = 64


def _generation(node: Node) -> Iterator[Violation]:
    if node.get("fabric_kind") != "infiniband":
        return
    generation, gbps = node.get("fabric_ib_generation"), node.get("fabric_link_gbps")
    rate = GENERATIONS.get(generation or "")
    if (
        rate is not None
        and gbps is not None
        and gbps != rate
        and "fabric_ib_generation" in node.written
    ):
        message = f"{generation} runs at {rate} Gb/s, but fabric_link_gbps is {gbps}"
        remedy = f"write fabric_link_gbps: {rate}"
        if names := _names(gbps):
            remedy = f"write {names}, or {remedy.removeprefix('write ')}"
        yield Violation("fabric_ib_generation", message, remedy)


def _names(gbps: int) -> str:
    """Return the generations of a rate, empty if there is none."""
    return " or ".join(name for name, rate in GENERATIONS.items() if rate == gbps)


def _rate(node: Node) -> Iterator[Violation]:
    kind, gbps = node.get("fabric_kind"), node.get("fabric_link_gbps")
    if kind == "roce" and gbps in _IB_ONLY_GBPS:
        message = f"no Ethernet port runs at {gbps} Gb/s"
        yield Violation("fabric_link_gbps", message, "write 40, 50 or 100")
    if kind == "infiniband" and gbps in _ETHERNET_ONLY_GBPS:
        message = f"no InfiniBand port runs at {gbps} Gb/s"
        yield Violation("fabric_link_gbps", message, "write 40, 100, 200, 400 or 800")


def _mtu(node: Node) -> Iterator[Violation]:
    mtu = node.get("fabric_mtu_bytes")
    least = ROCE_MTU_BYTES + ROCE_HEADER_BYTES
    if mtu is None:
        return
    if is_roce(node) and mtu < least:
        message = f"{mtu} is too small for a RoCE MTU of {ROCE_MTU_BYTES}"
        yield Violation("fabric_mtu_bytes", message, f"write {least} or more, such as 9000")
    elif is_roce(node) and mtu > 10000:
        message = f"{mtu} is more than an Ethernet port supports"
        yield Violation("fabric_mtu_bytes", message, "write 9000")
    elif not is_roce(node) and not 1280 <= mtu <= IPOIB_MOST_BYTES:
        message = f"{mtu} is not an MTU that IPoIB supports"
        yield Violation(
            "fabric_mtu_bytes", message, "write 2044 or 4092, whichever the partition allows"
        )


def _rdma_mtu(node: Node) -> Iterator[Violation]:
    mtu, rdma = node.get("fabric_mtu_bytes"), node.get("mtu_rdma_bytes")
    if not is_roce(node) or mtu is None or rdma is None or "mtu_rdma_bytes" not in node.written:
        return
    fitting = [size for size in (256, 512, 1024, 2048, 4096) if size <= mtu - ROCE_HEADER_BYTES]
    if fitting and rdma != fitting[-1]:
        message = f"the RDMA MTU is {fitting[-1]} when fabric_mtu_bytes is {mtu}"
        yield Violation("mtu_rdma_bytes", message, f"write {fitting[-1]}, or remove the line")


def _gpus(node: Node) -> Iterator[Violation]:
    count = node.get("fabric_gpu_count")
    if count is None or not node.rails or count > MOST_GPUS:
        return
    for rail in node.rails:
        for place, gpu in enumerate(rail.gpus):
            if not 0 <= gpu < count:
                message = f"rail {rail.index} lists GPU {gpu}, but fabric_gpu_count is {count}"
                remedy = f"write 0 to {count - 1}" if count else "write fabric_gpu_count"
                yield Violation("fabric_rails", message, remedy, (rail.index, "gpus", place))
    mapped = {gpu for rail in node.rails for gpu in rail.gpus}
    missing = sorted(set(range(max(count, 0))) - mapped)
    if missing:
        message = f"no rail lists {_gpu_names(missing)}"
        yield Violation("fabric_rails", message, "list each GPU in gpus: [...] of its rail")


def _gpu_names(gpus: list[int]) -> str:
    return f"GPU{'s' if len(gpus) > 1 else ''} {', '.join(map(str, gpus))}"


def _gpus_once(node: Node) -> Iterator[Violation]:
    """Yield the GPUs listed twice; two rails may share a GPU where there are more rails."""
    count = node.get("fabric_gpu_count") or 0
    owner: dict[int, int] = {}
    for rail in node.rails:
        for place, gpu in enumerate(rail.gpus):
            first = owner.setdefault(gpu, rail.index)
            repeated = rail.gpus.index(gpu) != place
            if repeated or (first != rail.index and len(node.rails) <= count):
                twice = (
                    f"twice on rail {first}" if repeated else f"on rails {first} and {rail.index}"
                )
                where = (rail.index, "gpus", place)
                yield Violation(
                    "fabric_rails", f"GPU {gpu} is listed {twice}", "list it once", where
                )


RULES = (
    Rule("link.generation", "The InfiniBand generation matches the link rate.",
         _IB_TA, _generation),
    Rule("link.rate", "The link rate exists on this kind of fabric.",
         f"IEEE 802.3; {_IB_TA}", _rate),
    Rule("mtu.netdev", "The MTU leaves room for a RoCE MTU of 4096, or is one that IPoIB supports.",
         "Linux include/rdma/ib_addr.h: iboe_get_mtu; MLNX_OFED: IPoIB is datagram only", _mtu),
    Rule("mtu.rdma", "The RDMA MTU is the one that follows from the network device's MTU.",
         "Linux include/rdma/ib_addr.h: iboe_get_mtu", _rdma_mtu),
    Rule("gpus.complete", "Each GPU of a node is listed on a rail.",
         "NCCL docs, env.rst: NCCL_CROSS_NIC, rails", _gpus),
    Rule("gpus.once", "Each GPU is listed on one rail, unless there are more rails than GPUs.",
         "NCCL docs, env.rst: NCCL_CROSS_NIC, rails", _gpus_once),
)  # fmt: skip
