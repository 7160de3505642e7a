"""A made-up node with two rails for the role fabric, and the role run on it."""

from plugins.module_utils.converge import converge
from plugins.module_utils.roles import fabric
from tests.roles.fake import FakeMachine, given
from tests.roles.iproute import IpRoute

RAILS = [
    {"netdev": "ens1", "address": "198.18.0.1/24", "gateway": "198.18.0.254"},
    {"netdev": "ens2", "address": "fd00:1::1/64"},
]
NETWORK_FILE = "/etc/systemd/network/20-rdmaprov-{}.network"
ARP = "/proc/sys/net/ipv4/conf/ens1/"


def with_two_rails(machine: FakeMachine) -> FakeMachine:
    for index, (netdev, rdma) in enumerate(
        [("eno1", ""), ("ens1", "mlx5_0"), ("ens2", "mlx5_1")], start=2
    ):
        machine.nic(netdev, f"0000:0{index}:00.0", rdma, index)
        machine.put(f"/sys/class/net/{netdev}/type", "1\n")
        machine.put(f"/run/systemd/netif/links/{index}", "ADMIN_STATE=unmanaged\n")
        for name in fabric.SETTINGS:
            machine.put(f"/proc/sys/net/ipv4/conf/{netdev}/{name}", "0\n")
    for rdma in ("mlx5_0", "mlx5_1"):
        machine.put(f"/sys/class/infiniband/{rdma}/ports/1/link_layer", "Ethernet\n")
    machine.put("/run/systemd/netif/state")
    machine.put("/proc/net/if_inet6")
    machine.put("/proc/meminfo", "MemTotal:  2097152000 kB\n")
    for name in ("node0", "node1"):
        machine.put(f"/sys/devices/system/node/{name}/cpulist")
    machine.put("/sys/devices/system/node/has_normal_memory", "0-1\n")
    machine.programs = {"networkctl reload": lambda _: reload(machine)}
    return machine


def with_ip(node: FakeMachine) -> IpRoute:
    shown = IpRoute(node)
    shown.links = {"eno1": ["10.0.2.15/24"], "ens1": ["fe80::1/64"], "ens2": []}
    shown.up = {"ens1": False}
    return shown


def reload(machine: FakeMachine) -> str:
    for index, netdev in ((3, "ens1"), (4, "ens2")):
        path = NETWORK_FILE.format(netdev)
        if machine.exists(path):
            machine.put(f"/run/systemd/netif/links/{index}", f"NETWORK_FILE={path}\n")
    return ""


def arguments(**changed: object) -> dict[str, object]:
    return given("fabric", **{"kind": "roce", "rails": RAILS, "neighbor_entries": 0, **changed})


def apply(node: FakeMachine, **changed: object) -> list[dict[str, str]]:
    changes: list[dict[str, str]] = converge(node, fabric, arguments(**changed), check=False)[
        "changes"
    ]
    return changes
