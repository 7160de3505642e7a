"""Rails of a made-up node that are a bond of two ports, or a VLAN."""

from __future__ import annotations

from tests.validate.fake_node import FakeNode
from tests.validate.hardware import counted, mac, nic, qos
from tests.validate.healthy import CABLE, QUERY, RAILS
from tests.validate.switches import announced

WAY = RAILS["ens1"][1]
SECOND = "0000:18:00.1"
SECOND_END = ("leaf-r1", "swp1")
PLACE = "/sys/devices/pci0000:15/" + "/".join(WAY)


def stacked(node: FakeNode, name: str, port: str, **files: str) -> None:
    """Have rail 0's network device on top of the port that it was."""
    for path in node.files_with("ens1"):
        node.replace_all(path, "ens1", name)
    node.rename_all("ens1", name)
    node.rename(f"{PLACE}/net/{name}", f"{PLACE}/net/{port}")
    node.remove(f"/sys/class/net/{name}")
    node.link(f"/sys/class/net/{port}", f"{PLACE}/net/{port}")
    attributes = {
        "mtu": "9000",
        "flags": "0x1003",
        "type": "1",
        "ifindex": "90",
        "iflink": "90",
        "address": mac("198.18.0.1"),
        "speed": "400000",
        "carrier": "1",
        "carrier_changes": "2",
        **files,
    }
    for file, text in attributes.items():
        node.put(f"/sys/devices/virtual/net/{name}/{file}", text + "\n")
    node.link(f"/sys/class/net/{name}", f"/sys/devices/virtual/net/{name}")
    for what in ("app", "pfc", "ets", "buffer", "dcbx"):
        node.answer(f"dcb -N -j {what} show dev {name}", "", "Operation not supported", 1)
    node.answer(f"ethtool -S {name}", "", "no stats available", 94)


def bonded(node: FakeNode) -> str:
    """Have rail 0 be LACP over two ports of 200G of a card, with the RDMA device of its LAG."""
    for path in node.files_with("mlx5_0"):
        node.replace_all(path, "mlx5_0", "mlx5_bond_0")
    node.rename_all("mlx5_0", "mlx5_bond_0")
    stacked(
        node,
        "bond0",
        "ens1f0",
        uevent="DEVTYPE=bond",
        **{"bonding/slaves": "ens1f0 ens1f1", "bonding/mode": "802.3ad 4"},
    )
    nic(node, "ens1f1", (*WAY[:-1], SECOND), "mlx5_9x", 0, "198.18.0.1")
    for netdev, rdma in (("ens1f0", "mlx5_bond_0"), ("ens1f1", "mlx5_9x")):
        qos(node, netdev, rdma)
        counted(node, netdev, rdma)
        node.put(f"/sys/class/net/{netdev}/speed", "200000\n")
    node.remove("/sys/class/infiniband/mlx5_9x")  # the LAG's is on the first port alone
    node.remove(f"{PLACE[: -len(WAY[-1])]}{SECOND}/infiniband")
    node.remove("/sys/kernel/config/rdma_cm/mlx5_9x")
    node.answer(f"mstconfig -d {SECOND} -e query", QUERY)
    node.answer(f"mlxlink -d {SECOND} -m -c", CABLE.read_text())
    ends = {"ens1f0": ("leaf-r0", "swp1"), "ens1f1": ("leaf-r0", "swp51"), "ens2": SECOND_END}
    node.answer("lldpctl -f json0", announced(ends))
    # LACP may bring one connection on either port.
    for tool, packets in (("ib_write_bw", (1002, 0)), ("rping", (100, 151))):
        lines = [
            f"bond0 ens1f{port}:rx_prio3_packets {count}\n" for port, count in enumerate(packets)
        ]
        others = "ens2 ens2:rx_prio3_packets 1002\n"
        node.put(f"/.answers/traffic/{tool}", "".join(lines) + others)
    return "bond0"


def tagged(node: FakeNode) -> str:
    """Have rail 0 be VLAN 100, whose addresses alone name it in the GID table."""
    stacked(node, "ens1.100", "ens1", uevent="DEVTYPE=vlan", iflink=str(int(WAY[-1][5:7], 16)))
    qos(node, "ens1", "mlx5_0")
    counted(node, "ens1", "mlx5_0")
    ends = {"ens1": ("leaf-r0", "swp1"), "ens2": SECOND_END}
    node.answer("lldpctl -f json0", announced(ends))
    for index in (0, 1):
        node.put(f"/sys/class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/{index}", "ens1\n")
    for tool in ("ib_write_bw", "rping"):
        node.replace_all(f"/.answers/traffic/{tool}", "ens1.100:", "ens1:")
    node.put(
        "/etc/systemd/network/10-ens1.network",
        "[Match]\nName=ens1\n\n[Link]\nMTUBytes=9216\n\n[Network]\nVLAN=ens1.100\n",
    )
    return "ens1.100"
