"""What a healthy node of tests/validate/site has. Written out, not derived from the site."""

import json
from pathlib import Path

from tests.validate.fake_node import FakeNode
from tests.validate.hardware import counted, function, mac, nic, qos
from tests.validate.services import gpu_services, kernel_log, manager, tuned
from tests.validate.switches import announced

CABLE = Path(__file__).resolve().parents[1] / "fixtures/mlxlink/bluefield3-passive-copper.txt"
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
GRUB = """\
menuentry 'Ubuntu' --class ubuntu $menuentry_id_option 'gnulinux-simple' {{
	linux	/boot/vmlinuz-{kernel} root=UUID=0 ro quiet {arguments}
	initrd	/boot/initrd.img-{kernel}
}}
menuentry 'Ubuntu (recovery mode)' $menuentry_id_option 'gnulinux-recovery' {{
	linux	/boot/vmlinuz-{kernel} root=UUID=0 ro recovery nomodeset
}}
"""
ARGUMENTS = "hugepagesz=1G hugepages=4 iommu=pt"
NETWORK = """\
[Match]
Name={netdev}

[Network]
Address=198.18.{rail}.{number}/24

[Route]
Destination=198.18.{rail}.0/24
Table={table}

[RoutingPolicyRule]
From=198.18.{rail}.{number}
Table={table}
Priority={table}
"""
NCCL = """\
# Written by rdmaprov (nccl), checksum 00000000; changes here are lost.
NCCL_IB_HCA==mlx5_0,mlx5_1
NCCL_IB_TC=106
NCCL_IB_ADDR_FAMILY=AF_INET
NCCL_IB_ADDR_RANGE=198.18.0.0/15
NCCL_SOCKET_IFNAME==eno1
NCCL_CROSS_NIC=0
NCCL_TUNER_PLUGIN=example
NCCL_IB_QPS_PER_CONNECTION=4
"""
PACKAGES = """\
rdma-core|2507mlnx58-1.2507097|hold|installed
ibverbs-utils|2507mlnx58-1.2507097|hold|installed
rdmacm-utils|2507mlnx58-1.2507097|hold|installed
perftest|25.07.0-0.97.g1.2507097|hold|installed
doca-ofed|3.1.0-091513|hold|installed
mlnx-ofed-kernel-dkms|25.07.OFED.25.07.0.9.7.1-1|hold|installed
mlnx-ofed-kernel-utils|25.07.OFED.25.07.0.9.7.1-1|hold|installed
linux-image-6.8.0-60-generic|6.8.0-60.63|hold|installed
libnccl2|2.30.7-1+cuda13.0|install|installed
"""
QUERY = """\
Device #1:
----------

Configurations:                               Default             Current             Next Boot
  ROCE_CC_PRIO_MASK_P1                        0                   255                 255
  LLDP_NB_DCBX_P1                             False(0)            False(0)            False(0)
  LLDP_NB_RX_MODE_P1                          OFF(0)              OFF(0)              OFF(0)
  LLDP_NB_TX_MODE_P1                          OFF(0)              OFF(0)              OFF(0)
  ATS_ENABLED                                 False(0)            False(0)            False(0)
"""


def healthy(root: Path, number: int) -> FakeNode:
    """Return node gpuNUMBER, as it should be."""
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
    kernel_log(node)
    function(node, NVME, 0, vendor="0x144d", kind="0x010802")
    addresses(node, number)
    node.answer("lldpctl -v", "1.0.16\n")
    ends = {netdev: (f"leaf-r{rail}", f"swp{number}") for netdev, (rail, *_) in RAILS.items()}
    node.answer("lldpctl -f json0", announced(ends))
    kernel(node)
    software(node)
    boots(node)
    limits(node)
    tuned(node)
    manager(node, number)
    for name, text in paths(number).items():
        node.put(name, text)
    for name in ("sleep", "ping", "ib_write_bw", "rping", "ibv_rc_pingpong"):
        node.program(name)
    return node


def management(node: FakeNode) -> None:
    """Have what is no rail: the management NIC on the same driver, an unused port, lo."""
    nic(node, "eno1", ("0000:02:00.0",), "mlx5_8", 0, "10.0.0.1")
    nic(node, "ens9", ("0000:60:00.0",), "mlx5_9", 1, "")
    node.put("/sys/class/net/eno1/mtu", "1500\n")
    for name, value in {"mtu": "65536", "flags": "0x9", "ifindex": "1", "iflink": "1"}.items():
        node.put(f"/sys/devices/virtual/net/lo/{name}", value + "\n")
    node.link("/sys/class/net/lo", "/sys/devices/virtual/net/lo")


def link_files(node: FakeNode, netdev: str, rail: int, number: int) -> None:
    """Have what networkd reads at boot, and the settings of ARP."""
    file = f"/etc/systemd/network/20-rdmaprov-{netdev}.network"
    node.put(file, NETWORK.format(netdev=netdev, rail=rail, number=number, table=1000 + rail))
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
    """Have addresses, rules, routes and queueing disciplines, as `ip -j` and `tc -j` show them."""
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
    """Have NUMA nodes, memory, hugepages, modules and what a kernel shows of them."""
    files = {
        "/proc/sys/kernel/osrelease": KERNEL,
        "/proc/sys/kernel/numa_balancing": "0",
        "/proc/sys/vm/swappiness": "10",
        **{f"/proc/sys/{name}": value for name, value in NEIGHBORS.items()},
        "/proc/sys/net/ipv4/tcp_rmem": "4096\t87380\t16777216",
        "/proc/kallsyms": "0000000000000000 t ib_umem_dmabuf_get\t[ib_uverbs]",
        "/proc/uptime": "864000.00 1.00",
        "/proc/sys/kernel/random/boot_id": "0b1e",
        # PFC was set on ens1, which took its link down and up.
        "/run/rdmaprov/link-changes.json": '{"boot_id": "0b1e", "changes": {"ens1": 2}}',
        "/proc/cmdline": f"BOOT_IMAGE=/x ro quiet {ARGUMENTS}",
        "/proc/meminfo": "MemTotal:       65000000 kB\nHugepagesize:       2048 kB",
        "/sys/devices/system/node/online": "0-1",
        "/sys/devices/system/node/has_normal_memory": "0-1",
        "/sys/devices/system/node/node0/cpulist": "0-31",
        "/sys/devices/system/node/node1/cpulist": "32-63",
        "/sys/devices/system/cpu/cpufreq/policy0/scaling_governor": "performance",
        "/sys/class/dmi/id/bios_version": "2.4.1",
        "/sys/class/dmi/id/product_name": "XE9680",
        "/sys/class/iommu/dmar0/name": "dmar0",
        "/sys/firmware/acpi/tables/DMAR": "",
        "/sys/module/mlx5_core/parameters/prof_sel": "3",
        "/sys/kernel/mm/memory_peers/nv_mem/version": "1.0",
        "/proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64",
        "/etc/os-release": "ID=ubuntu\nVERSION_ID=24.04",
        f"/lib/modules/{KERNEL}/modules.dep": "",
        f"/boot/vmlinuz-{KERNEL}": "",
        "/proc/700/limits": "Max locked memory   unlimited   unlimited   bytes",
        "/proc/700/comm": "sshd",
        "/var/lib/dpkg/lock-frontend": "",
        "/proc/locks": "1: POSIX  ADVISORY  WRITE 700 08:01:1 0 EOF",
    }
    for name, text in files.items():
        node.put(name, text + "\n")
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
    node.answer(
        f"modinfo -k {KERNEL} -n mlx5_core", f"/lib/modules/{KERNEL}/updates/dkms/mlx5_core.ko\n"
    )


def software(node: FakeNode) -> None:
    """Have packages, OFED's tools, firmware's tool, nccl.conf and a Python with torch."""
    node.put("/.bin/dpkg-query", f"#!/bin/sh\ncat <<'E'\n{PACKAGES}E\n")
    node.put("/.bin/ofed_info", "#!/bin/sh\necho OFED-internal-25.07-0.9.7:\n")
    # 39 GiB are free.
    node.put(
        "/.bin/df",
        "#!/bin/sh\necho 'Filesystem 1024-blocks Used Available Capacity "
        "Mounted on'\necho '/dev/sda1 51200000 10240000 40960000 20% /'\n",
    )
    for name in ("dpkg-query", "ofed_info", "df"):
        node.executable(f"/.bin/{name}")
    for _, way, _, _ in RAILS.values():
        node.answer(f"mstconfig -d {way[-1]} -e query", QUERY)
        node.answer(f"mlxlink -d {way[-1]} -m -c", CABLE.read_text())
    node.put("/etc/nccl.conf", NCCL)
    node.put("/.answers/python/torch", '"2.13.0+cu130"')
    node.put("/.answers/python/nvidia-nccl-cu13", '"2.30.7"')
    node.program("/opt/rdmaprov/torch/bin/python")
    node.put("/opt/rdmaprov/torch/pyvenv.cfg", "home = /usr/bin\n")


def boots(node: FakeNode) -> None:
    """Have what a boot reads: GRUB, modprobe.d, an initramfs, units, descriptions."""
    node.put("/boot/grub/grub.cfg", GRUB.format(kernel=KERNEL, arguments=ARGUMENTS))
    node.put("/etc/modprobe.d/rdmaprov.conf", "options mlx5_core prof_sel=3\n")
    node.put("/etc/modules-load.d/rdmaprov-peermem.conf", "nvidia_peermem\n")
    image = f"/boot/initrd.img-{KERNEL}"
    node.put(image)
    inside = (
        f"usr/lib/modules/{KERNEL}/updates/dkms/mlx5_core.ko.zst\netc/modprobe.d/rdmaprov.conf\n"
    )
    node.answer(f"lsinitramfs {image}", inside)
    node.put("/.answers/initramfs", "options mlx5_core prof_sel=3\n")
    node.put(
        "/.bin/unmkinitramfs",
        '#!/bin/sh\nmkdir -p "$2/etc/modprobe.d"\n'
        'cp "$ROOT/.answers/initramfs" "$2/etc/modprobe.d/rdmaprov.conf"\n',
    )
    node.put("/.bin/mktemp", '#!/bin/sh\nmkdir -p "$ROOT/dev/shm/x"; echo "$ROOT/dev/shm/x"\n')
    for name in ("unmkinitramfs", "mktemp"):
        node.executable(f"/.bin/{name}")
    pools = "/sys/devices/system/node/node{}/hugepages/hugepages-2048kB/nr_hugepages {}"
    start = f"ExecStart=/bin/sh -c 'x' sh \\\n  {pools.format(1, 256)} \\\n  {pools.format(0, 512)}"
    node.put("/etc/systemd/system/rdmaprov-hugepages.service", f"[Service]\n{start}\n")
    node.unit("rdmaprov-hugepages.service")
    node.put("/etc/systemd/system/sysinit.target.wants/rdmaprov-hugepages.service")
    node.put("/etc/systemd/system/multi-user.target.wants/rdmaprov-pcie.service")
    node.unit("rdmaprov-pcie.service", ActiveState="inactive")
    node.put("/.answers/units/failed", "")
    described = {
        "rails": [],
        "max_read_request_bytes": "4096",
        "acs_redirect": "off",
        "numa_balancing": "off",
        "irq_affinity": "local",
        "cpu_governor": "performance",
    }
    node.put("/etc/rdmaprov/pcie.json", json.dumps(described))


def limits(node: FakeNode) -> None:
    """Have limits and kernel settings, for now and for a boot."""
    node.put("/etc/security/limits.conf", "# /etc/security/limits.conf\n")
    lines = [
        f"{user} {kind} memlock unlimited\n" for user in ("*", "root") for kind in ("soft", "hard")
    ]
    node.put("/etc/security/limits.d/99-rdmaprov-memlock.conf", "".join(lines))
    node.put(
        "/etc/sysctl.d/99-z-rdmaprov-limits.conf",
        "net.ipv4.tcp_rmem = 4096 87380 16777216\nvm.swappiness = 10\n",
    )
    node.put("/.answers/ulimit", "-S unlimited\n-H unlimited\n")
    node.unit("ssh.service", MainPID="700")
    node.unit("slurmd.service", MainPID="701")
    node.put("/proc/701/limits", "Max locked memory   unlimited   unlimited   bytes\n")
    node.put("/proc/701/environ", "PATH=/bin\0")
    node.put("/etc/slurm/slurm.conf", "ClusterName=a\nInclude limits.conf # ours\n")
    node.put("/etc/slurm/limits.conf", "PropagateResourceLimitsExcept=MEMLOCK\n")


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
