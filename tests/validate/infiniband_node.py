"""The healthy node as an InfiniBand one: its ports in subnets, its network devices IPoIB's."""

from __future__ import annotations

from pathlib import Path

from tests.validate.fake_node import FakeNode
from tests.validate.healthy import QUERY, RAILS, healthy

NCCL = """\
# Written by rdmaprov (nccl), checksum 00000000; changes here are lost.
NCCL_IB_HCA==mlx5_0,mlx5_1
NCCL_IB_SL=1
NCCL_IB_PKEY=1
NCCL_COLLNET_ENABLE=1
NCCL_IB_ADAPTIVE_ROUTING=1
NCCL_SOCKET_IFNAME==eno1
NCCL_CROSS_NIC=0
NCCL_IB_QPS_PER_CONNECTION=4
"""
CABLE = Path(__file__).resolve().parents[1] / "fixtures/mlxlink/ndr-passive-copper.txt"


def infiniband(root: Path, number: int) -> FakeNode:
    """Return node gpuNUMBER, as it should be."""
    node = healthy(root, number)
    for netdev, (rail, way, rdma, _) in RAILS.items():
        in_subnet(node, rdma, number, rail)
        ipoib(node, netdev)
        node.remove(f"/sys/class/net/{netdev}/ecn")
        row = f"  {'LINK_TYPE_P1':44}" + f"{'IB(1)':20}" * 2 + "IB(1)\n"
        node.answer(f"mstconfig -d {way[-1]} -e query", QUERY + row)
        node.answer(f"mlxlink -d {way[-1]} -m -c", CABLE.read_text())
    node.put("/etc/nccl.conf", NCCL)
    return node


def in_subnet(node: FakeNode, rdma: str, number: int, rail: int) -> None:
    """Have what a subnet manager gives a port: LIDs, prefix, partition keys."""
    port = f"/sys/class/infiniband/{rdma}/ports/1"
    node.remove(f"{port}/gids")
    node.remove(f"{port}/gid_attrs")
    guid = f"9c63:c003:00ab:{number:02x}{rail:02x}"
    values = {
        "link_layer": "InfiniBand", "lid": f"0x{0x10 * number + rail:x}", "sm_lid": "0x1",
        "gids/0": f"fec0:0000:0000:{rail:04x}:{guid}", "pkeys/0": "0xffff",
        "pkeys/1": "0x8001", "pkeys/2": "0x0000",
    }  # fmt: skip
    for name, value in values.items():
        node.put(f"{port}/{name}", value + "\n")


def ipoib(node: FakeNode, netdev: str) -> None:
    """Have the network device be IPoIB's, in datagram mode."""
    for name, value in {"type": "32", "mtu": "2044", "mode": "datagram"}.items():
        node.put(f"/sys/class/net/{netdev}/{name}", value + "\n")
    file = f"/etc/systemd/network/20-rdmaprov-{netdev}.network"
    node.put(f"{file}.d/rdmaprov-mtu.conf", "[Link]\nMTUBytes=2044\n")
    node.put(file, (node.root / file[1:]).read_text() + "\n[IPoIB]\nMode=datagram\n")
