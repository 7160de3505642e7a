"""The made-up fleet that the suite is tried on."""

from pathlib import Path

import pytest
from tests.validate.fake_node import FakeNode
from tests.validate.hardware import netdev_files
from tests.validate.healthy import HEALTHY, QUERY, RAILS, healthy
from tests.validate.runner import Judge, modules

from rdmaprov.facts import wire
from rdmaprov.inventory import load_site

# RFC 4391, section 4; as `ip link show ib0` has it.
BROADCAST = "00:ff:ff:ff:ff:12:40:1b:{}:00:00:00:00:00:00:ff:ff:ff:ff"
CABLE = Path(__file__).resolve().parents[1] / "fixtures/mlxlink/ndr-passive-copper.txt"


def infiniband(root: Path, number: int) -> FakeNode:
    node = healthy(root, number)
    for netdev, (rail, way, rdma, _) in RAILS.items():
        in_subnet(node, rdma, number, rail)
        ipoib(node, netdev)
        node.remove(f"/sys/class/net/{netdev}/ecn")
        row = f"  {'LINK_TYPE_P1':44}" + f"{'IB(1)':20}" * 2 + "IB(1)\n"
        node.answer(f"mstconfig -d {way[-1]} -e query", QUERY + row)
        node.answer(f"mlxlink -d {way[-1]} -m -c", CABLE.read_text())
    partition(node)
    node.put("/etc/nccl.conf", HEALTHY["infiniband_nccl"])
    return node


def in_subnet(node: FakeNode, rdma: str, number: int, rail: int) -> None:
    """Have what a subnet manager gives a port: LIDs, prefix, partition keys."""
    port = f"/sys/class/infiniband/{rdma}/ports/1"
    node.remove(f"{port}/gids")
    node.remove(f"{port}/gid_attrs")
    guid = f"9c63:c003:00ab:{number:02x}{rail:02x}"
    values = {
        "link_layer": "InfiniBand",
        "lid": f"0x{0x10 * number + rail:x}",
        "sm_lid": "0x1",
        "gids/0": f"fec0:0000:0000:{rail:04x}:{guid}",
        "pkeys/0": "0xffff",
        "pkeys/1": "0x8001",
        "pkeys/2": "0x0000",
    }
    node.put_all(port, values)


def partition(node: FakeNode) -> None:
    """Have rail 1's network device be the IPoIB interface of partition 1 on its port's own.

    As netlink makes it, which systemd-networkd uses: without files of its mode and its key (Linux
    drivers/infiniband/ulp/ipoib/ipoib_vlan.c, __ipoib_vlan_add).
    """
    port, child = "ens2", "ens2.8001"
    node.rename_all(port, child)
    for path in node.files_with(port):
        node.replace_all(path, port, child)
    place = "/sys/devices/pci0000:38/0000:38:01.0/0000:3e:00.0/0000:3f:00.0/0000:40:00.0"
    own = {"type": "32", "mtu": "4092", "mode": "datagram", "broadcast": BROADCAST.format("ff:ff")}
    values = {name: text for name, text in netdev_files("64").items() if name != "address"} | own
    node.put_all(f"{place}/net/{port}", values)
    node.link(f"/sys/class/net/{port}", f"{place}/net/{port}")
    node.link(f"{place}/net/{port}/device", place)
    own = {"ifindex": "65", "iflink": "64", "broadcast": BROADCAST.format("80:01")}
    node.put_all(f"/sys/class/net/{child}", own)
    node.remove(f"/sys/class/net/{child}/mode")
    path = "/etc/systemd/network/20-rdmaprov-{}.{}"
    text = f"[NetDev]\nName={child}\nKind=ipoib\n\n[IPoIB]\nPartitionKey=0x8001\n"
    node.put(path.format(child, "netdev"), text)
    node.put(path.format(port, "network"), f"[Match]\nName={port}\n\n[Network]\nIPoIB={child}\n")


def ipoib(node: FakeNode, netdev: str) -> None:
    node.put_all(f"/sys/class/net/{netdev}", {"type": "32", "mtu": "2044", "mode": "datagram"})
    file = f"/etc/systemd/network/20-rdmaprov-{netdev}.network"
    node.put(f"{file}.d/rdmaprov-mtu.conf", "[Link]\nMTUBytes=2044\n")
    node.put(file, (node.root / file[1:]).read_text() + "\n[IPoIB]\nMode=datagram\n")


HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def _short_exchanges(monkeypatch):
    """Give up on an exchange that carries nothing after 2 s; on nodes it is half a minute."""
    monkeypatch.setattr(wire, "SERVER_S", 2)


@pytest.fixture(scope="session")
def suite():
    return modules()


def load(name):
    loaded = load_site(HERE / name, None)
    assert [problem.text() for problem in loaded.problems] == []
    return loaded


@pytest.fixture(scope="session")
def fleet():
    return load("site")


@pytest.fixture(scope="session")
def nodes(tmp_path_factory):
    base = tmp_path_factory.mktemp("nodes")
    return {f"gpu{number}": healthy(base / f"gpu{number}", number) for number in (1, 2)}


@pytest.fixture
def changed(nodes, tmp_path):
    """Return a healthy node to be changed; the made-up fleet has it in gpu1's place."""
    return nodes["gpu1"].like(tmp_path / "gpu1")


@pytest.fixture
def judged(suite, fleet, nodes, changed):
    return Judge(suite, fleet, nodes, changed)


@pytest.fixture(scope="session")
def infiniband_fleet():
    return load("infiniband_site")


@pytest.fixture(scope="session")
def infiniband_nodes(tmp_path_factory):
    base = tmp_path_factory.mktemp("infiniband")
    return {f"gpu{number}": infiniband(base / f"gpu{number}", number) for number in (1, 2)}
