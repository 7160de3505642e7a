"""A node's link rate, MTU and GPUs."""

from collections.abc import Iterator

from rdmaprov.contract.rule import Rule, Violation, is_roce
from rdmaprov.inventory.model import Node, Rail

_IB_TA = "InfiniBand Architecture Specification 1.7, volume 1, PortInfo"
# InfiniBand generation → Gb/s of a port, four lanes wide; HDR100 and NDR200 have two.
GENERATIONS = {
    "SDR": 10,
    "QDR": 40,
    "FDR10": 40,
    "FDR": 56,
    "EDR": 100,
    "HDR100": 100,
    "HDR": 200,
    "NDR200": 200,
    "NDR": 400,
    "XDR": 800,
}
_IB_ONLY_GBPS = (56,)
_ETHERNET_ONLY_GBPS = (25, 50)
ROCE_MTU_BYTES = 4096
ROCE_HEADER_BYTES = 96  # Linux include/rdma/ib_addr.h: iboe_get_mtu
IPOIB_MOST_BYTES = 4092
IPOIB_CONNECTED_BYTES = 65520
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
        if names := " or ".join(name for name, rate in GENERATIONS.items() if rate == gbps):
            remedy = f"write {names}, or {remedy.removeprefix('write ')}"
        yield Violation("fabric_ib_generation", message, remedy)


def _rate(node: Node) -> Iterator[Violation]:
    rates: list[tuple[str, tuple[str | int, ...], int | None]] = [
        ("fabric_link_gbps", (), node.get("fabric_link_gbps")),
        *(("fabric_rails", (rail.index, "link_gbps"), rail.link_gbps) for rail in node.rails),
    ]
    for name, path, gbps in rates:
        if node.get("fabric_kind") == "roce" and gbps in _IB_ONLY_GBPS:
            message = f"no Ethernet port runs at {gbps} Gb/s"
            yield Violation(name, message, "write 40, 50 or 100", path)
        if node.get("fabric_kind") == "infiniband" and gbps in _ETHERNET_ONLY_GBPS:
            message = f"no InfiniBand port runs at {gbps} Gb/s"
            yield Violation(name, message, "write 40, 100, 200, 400 or 800", path)


def _mtu(node: Node) -> Iterator[Violation]:
    mtu = node.get("fabric_mtu_bytes")
    least = ROCE_MTU_BYTES + ROCE_HEADER_BYTES
    if mtu is None or node.get("fabric_kind") is None:
        return
    if is_roce(node) and mtu < least:
        message = f"{mtu} is too small for a RoCE MTU of {ROCE_MTU_BYTES}"
        yield Violation("fabric_mtu_bytes", message, f"write {least} or more, such as 9000")
    elif is_roce(node) and mtu > 10000:
        message = f"{mtu} is more than an Ethernet port supports"
        yield Violation("fabric_mtu_bytes", message, "write 9000")
    elif not is_roce(node) and not 1280 <= mtu <= _ipoib_most(node):
        message = f"{mtu} is not an MTU that IPoIB supports"
        if IPOIB_MOST_BYTES < mtu <= IPOIB_CONNECTED_BYTES:
            message = f"{mtu} needs IPoIB's connected mode, which ConnectX-4 and later do not have"
        yield Violation(
            "fabric_mtu_bytes", message, "write 2044 or 4092, whichever the partition allows"
        )


def _ipoib_most(node: Node) -> int:
    is_connected = node.get("fabric_ipoib_mode") == "connected"
    return IPOIB_CONNECTED_BYTES if is_connected else IPOIB_MOST_BYTES


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
        if rail.gpus and rail.use != "compute":
            message = f"rail {rail.index} is for storage, but lists {_gpu_names([*rail.gpus])}"
            remedy = "list GPUs on compute rails alone"
            yield Violation("fabric_rails", message, remedy, (rail.index, "gpus"))
        for place, gpu in enumerate(rail.gpus):
            if not 0 <= gpu < count:
                message = f"rail {rail.index} lists GPU {gpu}, but fabric_gpu_count is {count}"
                remedy = f"write 0 to {count - 1}" if count else "write fabric_gpu_count"
                yield Violation("fabric_rails", message, remedy, (rail.index, "gpus", place))
    mapped = {gpu for rail in node.rails for gpu in rail.gpus}
    missing = sorted(set(range(max(count, 0))) - mapped)
    if missing:
        message = f"no rail lists {_gpu_names(missing)}"
        remedy = "list each GPU in gpus: [...] of its rail"
        if len(missing) == count - len(node.compute_rails):
            entries = " and ".join(f"- {{netdev: NAME, gpus: [{gpu}]}}" for gpu in missing[:4])
            remedy = f"if a rail is missing, add {entries}; else {remedy}"
        yield Violation("fabric_rails", message, remedy)


def _gpu_names(gpus: list[int]) -> str:
    return f"GPU{'s' if len(gpus) > 1 else ''} {', '.join(map(str, gpus))}"


def _gpus_once(node: Node) -> Iterator[Violation]:
    """Yield the GPUs listed twice; rails that share GPUs, on one PCIe switch, list the same."""
    owner: dict[int, Rail] = {}
    for rail in node.rails:
        for place, gpu in enumerate(rail.gpus):
            first = owner.setdefault(gpu, rail)
            where = (rail.index, "gpus", place)
            if rail.gpus.index(gpu) != place:
                message = f"GPU {gpu} is listed twice on rail {rail.index}"
                yield Violation("fabric_rails", message, "list it once", where)
            elif set(first.gpus) != set(rail.gpus):
                message = f"GPU {gpu} is listed on rails {first.index} and {rail.index}"
                remedy = "list it once, or the same GPUs on both rails if they share them"
                yield Violation("fabric_rails", message, remedy, where)


def _nvlink(node: Node) -> Iterator[Violation]:
    domain = node.get("fabric_nvlink_domain")
    if domain and node.get("fabric_gpu_count") == 0:
        message = f"the node is in NVLink domain '{domain}', but fabric_gpu_count is 0"
        yield Violation(
            "fabric_nvlink_domain", message, "write fabric_gpu_count, or remove the line"
        )


RULES = (
    Rule("link.generation", "The InfiniBand generation matches the link rate.",
         _IB_TA, _generation),
    Rule("link.rate", "The link rate exists on this kind of fabric.",
         f"IEEE 802.3; {_IB_TA}", _rate),
    Rule("mtu.netdev", "The MTU leaves room for a RoCE MTU of 4096, or is one that IPoIB supports.",
         "Linux include/rdma/ib_addr.h: iboe_get_mtu; RHEL 9, Configuring IPoIB", _mtu),
    Rule("mtu.rdma", "The RDMA MTU is the one that follows from the network device's MTU.",
         "Linux include/rdma/ib_addr.h: iboe_get_mtu", _rdma_mtu),
    Rule("gpus.complete", "Each GPU of a node is listed on a rail.",
         "NCCL docs, env.rst: NCCL_CROSS_NIC, rails", _gpus),
    Rule("gpus.nvlink", "A node in an NVLink domain has GPUs.",
         "NVIDIA GB200 NVL72: multi-node NVLink connects GPUs", _nvlink),
    Rule("gpus.once", "Each GPU is listed on one rail, or on several with the same GPUs.",
         "NCCL docs, env.rst: NCCL_CROSS_NIC, rails", _gpus_once),
)  # fmt: skip
