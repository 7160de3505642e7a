"""On a node that nobody has configured, each setting's test fails, and nothing is an error."""

import json

from tests.validate.hardware import config_space
from tests.validate.healthy import RAILS
from tests.validate.runner import SKIPPED, functions, hosts_of, judge, table

# Of the healthy node; and rdma_cm's ToS is only shown where somebody opened its directory.
NOT_JUDGED = {*SKIPPED, "test_roce_qos_marking.py::test_rdma_cm_marks_with_tos"}
REMOVED = (
    *("/etc/rdmaprov", "/etc/systemd/network", "/etc/systemd/system"),
    *("/etc/modprobe.d/rdmaprov.conf", "/etc/modules-load.d", "/etc/sysctl.d"),
    *("/etc/security/limits.d", "/etc/nccl.conf", "/opt/rdmaprov", "/sys/module/nvidia_peermem"),
    *("/sys/kernel/mm/memory_peers/nv_mem", "/sys/kernel/config/rdma_cm/mlx5_0"),
    "/sys/kernel/config/rdma_cm/mlx5_1",
)
PFC = {"delay": 0, "prio_pfc": [False] * 8}
ETS = {"tc_tsa": ["vendor"] * 8, "tc_bw": [0] * 8, "prio_tc": [1, 0, 2, 3, 4, 5, 6, 7]}
BUFFER = {"prio_buffer": [0] * 8, "buffer_size": [1, 0, 0, 0, 0, 0, 0, 0]}


def factory(node):
    """Undo what the roles do."""
    for path in REMOVED:
        node.remove(path)
    for unit in (
        "rdmaprov-hugepages.service",
        "rdmaprov-pcie.service",
        "rdmaprov-roce-qos@ens1.service",
        "rdmaprov-roce-qos@ens2.service",
    ):
        node.remove(f"/.answers/units/{unit}")
    node.put("/.answers/initramfs", "")
    node.put("/.answers/ulimit", "-S 8192\n-H 8192\n")
    node.unit("ssh.service", MainPID="700", LimitMEMLOCK="8388608", LimitMEMLOCKSoft="8388608")
    node.put("/proc/700/limits", "Max locked memory  8388608  8388608  bytes\n")
    node.put("/etc/slurm/limits.conf", "")
    node.put("/proc/cmdline", "ro quiet\n")
    node.replace("/boot/grub/grub.cfg", " hugepagesz=1G hugepages=4 iommu=pt", "")
    node.put("/proc/sys/vm/swappiness", "60\n")
    node.put("/proc/sys/net/ipv4/neigh/default/gc_thresh3", "1024\n")
    node.put("/proc/sys/kernel/numa_balancing", "1\n")
    node.put("/sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "schedutil\n")
    for numa in (0, 1):
        for kib in (2048, 1048576):
            pool = f"/sys/devices/system/node/node{numa}/hugepages/hugepages-{kib}kB"
            node.put(f"{pool}/nr_hugepages", "0\n")
    package = "linux-image-6.8.0-60-generic|1|install|installed"
    node.put("/.bin/dpkg-query", f"#!/bin/sh\necho '{package}'\n")
    node.put("/.bin/ofed_info", "#!/bin/sh\nexit 127\n")
    for name in ("dpkg-query", "ofed_info"):
        node.executable(f"/.bin/{name}")
    inbox = "/lib/modules/6.8.0-60-generic/kernel/drivers/mlx5_core.ko\n"
    node.answer("modinfo -k 6.8.0-60-generic -n mlx5_core", inbox)
    node.remove("/sys/module/mlx5_core/version")
    node.put("/sys/module/mlx5_core/parameters/prof_sel", "2\n")
    node.answer("ip -j address show", "[]\n")
    node.answer("ip -N -j -4 rule show", "[]\n")
    for netdev, (rail, way, rdma, _) in RAILS.items():
        bare_rail(node, netdev, rail, way[-1], rdma)


def bare_rail(node, netdev, rail, pci, rdma):
    """Have a rail as its driver leaves it."""
    node.put(f"/sys/class/net/{netdev}/mtu", "1500\n")
    node.put(f"/sys/class/net/{netdev}/flags", "0x1002\n")
    port = f"/sys/class/infiniband/{rdma}/ports/1"
    node.put(f"{port}/state", "1: DOWN\n")
    node.put(f"{port}/phys_state", "3: Disabled\n")
    for index in range(4):
        node.remove(f"{port}/gids/{index}")
    node.answer(f"ibv_devinfo -d {rdma}", "\tactive_mtu:\t\t1024 (3)\n")
    node.answer(f"ip -N -j -4 route show table {1000 + rail}", "[]\n")
    for name in ("arp_ignore", "arp_announce", "rp_filter"):
        node.put(f"/proc/sys/net/ipv4/conf/{netdev}/{name}", "0\n")
    for name, shown in {"app": {}, "pfc": PFC, "ets": ETS, "buffer": BUFFER}.items():
        node.answer(f"dcb -N -j {name} show dev {netdev}", json.dumps(shown))
    node.answer(f"ethtool -a {netdev}", "RX:\t\ton\nTX:\t\ton\n")
    ecn = f"/sys/class/net/{netdev}/ecn"
    for path, value in {
        "roce_np/enable/3": 0,
        "roce_np/cnp_dscp": 0,
        "roce_np/cnp_802p_prio": 0,
        "roce_rp/rpg_ai_rate": 5,
    }.items():
        node.put(f"{ecn}/{path}", f"{value}\n")
    node.put(f"/sys/bus/pci/devices/{pci}/iommu_group/type", "DMA-FQ\n")
    node.put(f"/proc/irq/{100 + rail}/smp_affinity_list", "0-63\n")
    node.remove(f"/sys/class/infiniband/{rdma}/tc")
    query = f"/.answers/mstconfig/-d_{pci}_-e_query"
    node.replace(query, "255                 255", "0                   0")
    node.put(f"/sys/bus/pci/devices/{pci}/config", config_space(bridge=False, read_request=2))
    for number in (1, 2):
        said = "ping: bind: Cannot assign requested address\n"
        node.put(f"/.answers/ping/198.18.{rail}.{number}", said)


def test_each_setting_is_found_and_nothing_is_an_error(suite, fleet, nodes, tmp_path):
    bare = {name: node.like(tmp_path / name) for name, node in nodes.items()}
    for node in bare.values():
        factory(node)
        node.put("/sys/bus/pci/devices/0000:17:00.0/config", config_space(bridge=True, acs=0x1D))
    outcomes = judge(suite, fleet, hosts_of(bare))
    assert [o for o in outcomes if o.state == "error"] == []
    factory_right = table("outcomes.yml")["factory"]
    right = {f"{file}::{test}" for file, tests in factory_right.items() for test in tests}
    failed = {o.test for o in outcomes if o.state == "failed"}
    assert failed == set(functions(suite)) - right - NOT_JUDGED
