"""What a healthy node of tests/validate/site has. Written out, not derived from the site."""

import json
from pathlib import Path

from tests.validate.fake_node import FakeNode
from tests.validate.hardware import counted, function, mac, nic, qos
from tests.validate.runner import table
from tests.validate.services import gpu_services, manager
from tests.validate.switches import announced

CABLE = Path(__file__).resolve().parents[1] / "fixtures/mlxlink/bluefield3-passive-copper.txt"
HEALTHY = table("healthy.yml")
KERNEL = "6.8.0-60-generic"
# By network device: rail's number, PCI way to the NIC, RDMA device, NUMA node
RAILS = {
    "ens1": (0, ("0000:15:01.0", "0000:16:00.0", "0000:17:00.0", "0000:18:00.0"), "mlx5_0", 0),
    "ens2": (1, ("0000:38:01.0", "0000:3e:00.0", "0000:3f:00.0", "0000:40:00.0"), "mlx5_1", 1),
}
GPUS = {
    "0000:19:00.0": (("0000:15:01.0", "0000:16:00.0", "0000:17:01.0"), 0),
    "0000:41:00.0": (("0000:38:01.0", "0000:3e:00.0", "0000:3f:01.0"), 1),
}
# Below the switch of the first GPU.
NEIGHBORS = {
    f"net/{family}/neigh/default/gc_thresh{number}": str(size)
    for family in ("ipv4", "ipv6")
    for number, size in ((1, 8192), (2, 16384), (3, 32768))
}
NVME = ("0000:15:01.0", "0000:16:00.0", "0000:17:02.0", "0000:1a:00.0")
MODULES = ("mlx5_core", "mlx5_ib", "ib_core", "ib_uverbs", "ib_umad", "nvidia", "nvidia_peermem")
QUERY: str = HEALTHY["query"]


def healthy(root: Path, number: int) -> FakeNode:
    node = FakeNode(root)
    for netdev, (rail, way, rdma, numa) in RAILS.items():
        nic(node, netdev, way, rdma, numa, f"198.18.{rail}.{number}")
        link_files(node, netdev, rail, number)
        qos(node, netdev, rdma)
        counted(node, netdev, rdma)
    management(node)
    for gpu, (bridges, numa) in GPUS.items():
        function(node, (*bridges, gpu), numa, vendor="0x10de", kind="0x030200")
    gpu_services(node, GPUS)
    function(node, NVME, 0, vendor="0x144d", kind="0x010802")
    addresses(node, number)
    ends = {netdev: (f"leaf-r{rail}", f"swp{number}") for netdev, (rail, *_) in RAILS.items()}
    node.answer("lldpctl -f json0", announced(ends))
    kernel(node)
    software(node)
    manager(node, number)
    for name, text in paths(number).items():
        node.put(name, text)
    for name in ("sleep", "ping", "ib_write_bw", "rping", "ibv_rc_pingpong"):
        node.program(name)
    for name, text in HEALTHY["files"].items():
        node.put(name, text)
        node.executable(name)
    for command, text in HEALTHY["answers"].items():
        node.answer(command, text)
    for name, properties in HEALTHY["units"].items():
        node.unit(name, **properties)
    return node


def management(node: FakeNode) -> None:
    """Have what is no rail: the management NIC on the same driver, an unused port, lo."""
    nic(node, "eno1", ("0000:02:00.0",), "mlx5_8", 0, "10.0.0.1")
    nic(node, "ens9", ("0000:60:00.0",), "mlx5_9", 1, "")
    node.link("/sys/class/net/lo", "/sys/devices/virtual/net/lo")


def link_files(node: FakeNode, netdev: str, rail: int, number: int) -> None:
    """Have what networkd reads at boot, and the settings of ARP."""
    file = f"/etc/systemd/network/20-rdmaprov-{netdev}.network"
    node.put(
        file, HEALTHY["network"].format(netdev=netdev, rail=rail, number=number, table=1000 + rail)
    )
    node.put(f"{file}.d/rdmaprov-mtu.conf", "[Link]\nMTUBytes=9000\n")
    path = "/etc/sysctl.d/90-rdmaprov-fabric.conf"
    before = (node.root / path[1:]).read_text() if rail else ""
    for name, value in {"arp_ignore": "1", "arp_announce": "2", "rp_filter": "2"}.items():
        node.put(f"/proc/sys/net/ipv4/conf/{netdev}/{name}", value + "\n")
        before += f"net/ipv4/conf/{netdev}/{name} = {value}\n"
    if not rail:
        before += "".join(f"{name} = {value}\n" for name, value in NEIGHBORS.items())
    node.put(path, before)


def addresses(node: FakeNode, number: int) -> None:
    shown = [_address("lo", "127.0.0.1", 8, "host"), _address("eno1", "10.0.0.1", 24, "global")]
    rules = [{"priority": 0, "src": "all", "table": "255"}]
    for netdev, (rail, *_) in RAILS.items():
        address = f"198.18.{rail}.{number}"
        shown.append(_address(netdev, address, 24, "global"))
        rules.append({"priority": 1000 + rail, "src": address, "table": str(1000 + rail)})
        route = [{"dst": f"198.18.{rail}.0/24", "dev": netdev, "flags": []}]
        node.answer(f"ip -N -j -4 route show table {1000 + rail}", json.dumps(route))
    rules.append({"priority": 32766, "src": "all", "table": "254"})
    node.answer("ip -j address show", json.dumps(shown))
    node.answer("ip -N -j -4 rule show", json.dumps(rules))
    disciplines = [{"kind": "mq", "handle": "0:", "dev": each, "root": True} for each in RAILS]
    disciplines += [{"kind": "fq_codel", "dev": each, "parent": ":1"} for each in RAILS]
    node.answer("tc -j qdisc show", json.dumps(disciplines))


def _address(netdev: str, address: str, length: int, scope: str) -> dict[str, object]:
    info = {"family": "inet", "local": address, "prefixlen": length, "scope": scope}
    return {"ifname": netdev, "addr_info": [info]}


def kernel(node: FakeNode) -> None:
    node.put_all("/proc/sys", NEIGHBORS)
    for numa, (small, large) in enumerate(((512, 2), (256, 2))):
        for kib, pages in ((2048, small), (1048576, large)):
            pool = f"/sys/devices/system/node/node{numa}/hugepages/hugepages-{kib}kB"
            node.put(f"{pool}/nr_hugepages", f"{pages}\n")
            node.put(f"{pool}/surplus_hugepages", "0\n")
    for module in MODULES:
        node.put(f"/sys/module/{module}/initstate", "live\n")
        node.put(f"/sys/module/{module}/version", "25.07-0.9.7\n")
        node.put(f"/sys/module/{module}/srcversion", f"AB{module.upper()}\n")
        node.answer(f"modinfo -F version {module}", "25.07-0.9.7\n")
        node.answer(f"modinfo -F srcversion {module}", f"AB{module.upper()}\n")
        node.answer(f"modinfo -n {module}", f"/lib/modules/{KERNEL}/updates/dkms/{module}.ko\n")


def software(node: FakeNode) -> None:
    for _, way, _, _ in RAILS.values():
        node.answer(f"mstconfig -d {way[-1]} -e query", QUERY)
        node.answer(f"mlxlink -d {way[-1]} -m -c", CABLE.read_text())
    node.program("/opt/rdmaprov/torch/bin/python")


def paths(number: int) -> dict[str, str]:
    """Return what ping says of the other node, and what traffic from there counts here."""
    other = 3 - number
    found = {}
    for netdev, (rail, *_) in RAILS.items():
        address = f"198.18.{rail}.{other}"
        found[f"/.answers/ping/{address}"] = (
            f"--- {address} ping statistics ---\n"
            "50 packets transmitted, 50 received, 0% packet loss, time 980ms\n"
        )
        neighbour = [{"dst": address, "lladdr": mac(address), "state": ["REACHABLE"]}]
        found[f"/.answers/ip/-j_neigh_show_to_{address}_dev_{netdev}"] = json.dumps(
            neighbour, separators=(",", ":")
        )
        # Each rail has a port of its own, by which a server's command line is told.
        found[f"/.answers/traffic/of-{netdev}"] = f"-p {18700 + rail}"
    write = "".join(f"{n} {n}:rx_prio3_packets 1002\n{n} {n}:rx_prio0_packets 9\n" for n in RAILS)
    found["/.answers/traffic/ib_write_bw"] = write
    found["/.answers/traffic/rping"] = write.replace("1002", "251")
    return found
