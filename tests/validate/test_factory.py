"""On a node that nobody has configured, each setting's test fails, and nothing is an error."""

import json

from tests.validate.hardware import config_space
from tests.validate.healthy import RAILS
from tests.validate.runner import FakeHosts, functions, judge

# What hardware and distribution bring, or what nothing configures.
RIGHT = {
    "test_affinity.py": (
        "test_gpu_is_on_the_rails_numa_node", "test_no_other_rail_is_nearer_to_the_gpu",
    ),
    "test_cables.py": (
        "test_bits_are_right_after_correction", "test_link_has_no_known_issue",
        "test_module_is_within_its_limits",
    ),
    "test_cabling.py": ("test_rail_is_on_its_switch_port",),
    "test_fabric.py": (
        "test_rail_has_network_device", "test_rail_has_rdma_device", "test_node_has_its_gpus",
        "test_rail_is_of_the_fabrics_kind", "test_rail_has_no_other_rails_address",
        "test_node_has_its_numa_nodes", "test_node_has_its_memory",
    ),
    "test_gpu.py": (
        "test_driver_shows_all_gpus", "test_persistence_mode_running",
        "test_persistence_mode_after_reboot", "test_ecc_running", "test_ecc_after_reboot",
        "test_memory_repair_is_not_pending", "test_memory_repair_has_not_failed",
        "test_memory_has_no_errors", "test_needs_no_recovery", "test_nothing_throttles_a_gpu",
        "test_power_limit", "test_pcie", "test_nvlinks", "test_nvlink_errors",
        "test_driver_libraries",
        "test_fabric_manager_runs", "test_fabric_manager_after_reboot",
        "test_fabric_manager_is_of_the_drivers_version",
        "test_gpus_have_joined_their_nvlink_fabric",
    ),
    "test_hugepages.py": (
        "test_default_size_running", "test_512m_pages_running", "test_16g_pages_running",
    ),
    "test_links.py": (
        "test_rate", "test_pcie_link", "test_pcie_width", "test_counters_are_those_of_a_good_link",
        "test_link_does_not_flap", "test_nothing_holds_packets_back",
    ),
    "test_mlx5.py": ("test_firmware_version_running",),
    "test_nccl.py": (
        "test_gid_index", "test_nothing_else_is_set", "test_nothing_overrides_the_file",
    ),
    "test_ofed.py": (
        "test_packages_are_whole", "test_no_installation_is_under_way", "test_disk_has_room",
    ),
    "test_path.py": ("test_neighbours_are_the_rails",),
    "test_pcie.py": ("test_numa_balancing_after_reboot",),
    "test_pcie_peers.py": ("test_acs_redirect_is_off_between_gpus_and_drives",),
    "test_peermem.py": (
        "test_module_is_not_denied_after_reboot", "test_gpu_driver_is_of_the_sites_flavour",
    ),
    "test_reboot.py": (
        "test_drivers_on_disk_run", "test_running_kernel_has_its_modules",
        "test_kernel_runs_with_what_a_boot_gives", "test_units_of_rdmaprov_have_not_failed",
    ),
    "test_kernel_log.py": ("test_gpus_need_no_hand", "test_nics_and_machine_need_no_hand"),
    "test_roce_qos.py": ("test_host_or_firmware_decides",),
    "test_roce_qos_storm.py": ("test_stalled_port_stops_pausing",),
    "test_roce_qos_marking.py": ("test_forced_traffic_class", "test_lldpad_is_off"),
    "test_switch_qos.py": (
        "test_switch_has_pfc_on_lossless_priority",
        "test_switch_has_bandwidth_for_lossless_priority", "test_switch_maps_roce_to_its_priority",
        "test_switch_takes_full_frames",
    ),
    "test_tuning.py": (
        "test_tuned_sets_no_other_sysctl", "test_tuned_sets_no_other_governor",
        "test_tuned_adds_no_kernel_argument_of_ours", "test_irqbalance_has_no_policy_of_its_own",
    ),
    "test_uniformity.py": (
        "test_kernel", "test_drivers", "test_ofed", "test_nic_firmware", "test_bios", "test_nccl",
        "test_torch", "test_vbios",
    ),
}  # fmt: skip
# Not of this site; and rdma_cm's ToS is only shown where somebody opened its directory.
SKIPPED = {
    *(f"test_infiniband.py::{test}" for test in (
        "test_ipoib_mode_after_reboot", "test_ipoib_mode_running", "test_ipoib_partition",
        "test_ipoib_partition_after_reboot", "test_lanes_and_speed", "test_partition_keys",
        "test_port_has_a_lid",
        "test_port_knows_its_subnet_manager", "test_subnet_prefix",
    )),
    *(f"test_subnet_manager.py::{test}" for test in (
        "test_manager_after_reboot", "test_manager_configured", "test_manager_in_the_subnet",
        "test_manager_running", "test_no_other_manager", "test_routing_engine_in_force",
    )),
    "test_nccl.py::test_adaptive_routing_is_the_sites",
    "test_nccl.py::test_collnet_is_on_where_sharp_is_wanted",
    "test_nccl.py::test_partition_is_the_fabrics",
    "test_uniformity.py::test_guids", "test_uniformity.py::test_subnets",
    "test_cabling.py::test_nodes_of_one_leaf_share_switches",
    "test_cabling.py::test_switches_have_the_same_rails_of_each_node",
    "test_gpu.py::test_health_command",
    "test_gpu.py::test_imex_runs", "test_gpu.py::test_imex_channel_running",
    "test_gpu.py::test_imex_channel_after_reboot", "test_uniformity.py::test_imex_lists",
    "test_gpu.py::test_nvlink_subnet_manager_runs", "test_uniformity.py::test_nvlink_domains",
    "test_gpu.py::test_nvlink_subnet_manager_after_reboot",
    "test_pcie_peers.py::test_iommu_does_not_translate_where_acs_is_off",
    "test_nccl.py::test_containers_get_the_file",
    "test_nccl.py::test_listed_names_stay_with_their_cards",
    "test_nccl.py::test_listed_names_after_reboot",
    "test_nccl.py::test_service_level_is_the_fabrics", "test_peermem.py::test_node_can_do_dmabuf",
    "test_torch_runtime.py::test_image_is_present",
    "test_roce_qos_marking.py::test_rdma_cm_marks_with_tos",
}  # fmt: skip
REMOVED = (
    "/etc/rdmaprov",
    "/etc/systemd/network",
    "/etc/systemd/system",
    "/etc/modprobe.d/rdmaprov.conf",
    "/etc/modules-load.d",
    "/etc/sysctl.d",
    "/etc/security/limits.d",
    "/etc/nccl.conf",
    "/opt/rdmaprov",
    "/sys/module/nvidia_peermem",
    "/sys/kernel/mm/memory_peers/nv_mem",
    "/sys/kernel/config/rdma_cm/mlx5_0",
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
    hosts = FakeHosts({name: node.host() for name, node in bare.items()})
    outcomes = judge(suite, fleet, hosts)
    assert [o for o in outcomes if o.state == "error"] == []
    right = {f"{file}::{test}" for file, tests in RIGHT.items() for test in tests}
    failed = {o.test for o in outcomes if o.state == "failed"}
    assert failed == set(functions(suite)) - right - SKIPPED
