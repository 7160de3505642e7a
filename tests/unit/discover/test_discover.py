"""Nodes are read from sysfs and become host variables."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tests.unit.helpers import sites
from tests.unit.helpers.discovered import RAIL

from rdmaprov import contract
from rdmaprov.cli import run
from rdmaprov.discover import collector, variables
from rdmaprov.discover.reach import parse_facts
from rdmaprov.exit_codes import ExitCode
from rdmaprov.inventory import load_site
from rdmaprov.probe.script import node_script

BRIDGES = "sys/devices/pci0000:15/0000:15:01.0"


def put(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


def link(root: Path, name: str, target: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(os.path.relpath(root / target, path.parent))


def nic(root: Path, device: str, netdev: str, pci: str, bridge: str) -> None:
    base = f"{bridge}/{pci}"
    put(root, f"{base}/numa_node", "0")
    put(root, f"{base}/net/{netdev}/mtu", "9000")
    put(root, f"{base}/net/{netdev}/speed", "400000")
    rdma = f"{base}/infiniband/{device}"
    put(root, f"{rdma}/ports/1/rate", "400 Gb/sec (4X NDR)")
    put(root, f"{rdma}/ports/1/link_layer", "Ethernet")
    put(root, f"{rdma}/ports/1/state", "4: ACTIVE")
    put(root, f"{rdma}/fw_ver", "28.43.2026")
    put(root, f"{base}/vendor", "0x15b3")
    put(root, f"{base}/device", "0x1021")
    (root / "sys/bus/pci/drivers/mlx5_core").mkdir(parents=True, exist_ok=True)
    link(root, f"{base}/driver", "sys/bus/pci/drivers/mlx5_core")
    link(root, f"{base}/net/{netdev}/device", base)
    link(root, f"{rdma}/device", base)
    link(root, f"sys/class/net/{netdev}", f"{base}/net/{netdev}")
    link(root, f"sys/class/infiniband/{device}", rdma)


def gpu(root: Path, pci: str, bridge: str, kind: str = "0x030200") -> None:
    base = f"{bridge}/{pci}"
    put(root, f"{base}/vendor", "0x10de")
    put(root, f"{base}/class", kind)
    put(root, f"{base}/numa_node", "0")
    link(root, f"sys/bus/pci/devices/{pci}", base)


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """Two NICs, each below a switch with a GPU; the second switch comes first."""
    root = tmp_path / "root"
    nic(root, "mlx5_0", "ens1", "0000:18:00.0", f"{BRIDGES}/0000:17:00.0")
    nic(root, "mlx5_1", "ens2", "0000:1a:00.0", f"{BRIDGES}/0000:19:00.0")
    gpu(root, "0000:1b:00.0", f"{BRIDGES}/0000:19:00.0")
    gpu(root, "0000:1c:00.0", f"{BRIDGES}/0000:17:00.0")
    gpu(root, "0000:1d:00.0", f"{BRIDGES}/0000:17:00.0", kind="0x040300")  # its sound device
    put(root, "proc/meminfo", "MemTotal:       2113646592 kB\nMemFree: 1 kB")
    put(root, "proc/sys/kernel/osrelease", "6.8.0-45-generic")
    put(root, "proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX Open Kernel Module  595.45")
    put(root, "sys/devices/system/node/node0/cpulist", "0-7")
    put(root, "sys/devices/system/node/node1/cpulist", "8-15")
    put(root, "sys/devices/system/node/node2/cpulist", "")  # a GPU's memory, on Grace Hopper
    put(root, "sys/devices/system/node/has_normal_memory", "0-1")
    return root


def soft_roce(root: Path, device: str, netdev: str) -> None:
    base = f"sys/class/infiniband/{device}"
    put(root, f"{base}/ports/1/rate", "2.5 Gb/sec (1X SDR)")
    put(root, f"{base}/ports/1/gid_attrs/ndevs/0", netdev)
    put(root, f"sys/class/net/{netdev}/speed", "10000")


def test_collector_reads_nics(machine: Path):
    facts = collector.collect(str(machine))
    assert parse_facts(json.dumps(facts)) == facts
    assert facts["rails"][0] == {**RAIL, "addresses": []}


def test_nics_without_a_driver_are_named_with_what_to_write(tmp_path: Path):
    put(tmp_path, "sys/bus/pci/devices/0000:18:00.0/vendor", "0x15b3")
    put(tmp_path, "sys/bus/pci/devices/0000:18:00.0/class", "0x020000")
    put(tmp_path, "sys/bus/pci/devices/0000:19:00.0/vendor", "0x8086")
    put(tmp_path, "sys/bus/pci/devices/0000:19:00.0/class", "0x020000")
    facts = parse_facts(json.dumps(collector.collect(str(tmp_path))))
    first, then = variables.remarks(facts)
    assert first == "1 NVIDIA NIC without an RDMA device (driver: none): 0000:18:00.0"
    assert "ofed_source" in then
    assert 'fabric_rails: [{pci: "0000:18:00.0"}]' in then
    assert variables.is_unknown(facts)


def test_device_with_planes_is_no_rail_and_unknown(machine: Path):
    for port in ("1", "2"):
        base = f"sys/class/infiniband/mlx5_0/ports/{port}"
        put(machine, f"{base}/link_layer", "InfiniBand")
    facts = collector.collect(str(machine))
    assert any("mlx5_0 is no rail: mlx5_0 has 2 ports" in each for each in variables.remarks(facts))
    assert variables.is_unknown(facts)


def test_python_of_rhel_8_is_named(machine: Path):
    facts = {**collector.collect(str(machine)), "python_minor": 6}
    assert any("newest Python is 3.6" in each for each in variables.remarks(facts))


def test_node_becomes_variables_with_gpus_at_the_nearest_rail(machine: Path):
    assert variables.host_variables(collector.collect(str(machine))) == {
        "fabric_rails": [
            {"pci": "0000:18:00.0", "gpus": [1]},
            {"pci": "0000:1a:00.0", "gpus": [0]},
        ],
        "fabric_link_gbps": 400,
        "fabric_gpu_count": 2,
        "fabric_memory_bytes": 2113646592 * 1024,
        "fabric_numa_nodes": 2,
        "peermem_gpu_module": "open",
        "peermem_kernel_version": "6.8.0-45-generic",
    }


def test_partition_of_ipoib_is_named_with_its_key(machine: Path):
    """Its address is the rail's, where the port itself has none."""
    for name, lower, key in (("ens1", "5", "ff:ff"), ("ens1.8002", "5", "80:02")):
        broadcast = f"00:ff:ff:ff:ff:12:40:1b:{key}:00:00:00:00:00:00:ff:ff:ff:ff"
        values = {"type": "32", "ifindex": "5" if name == "ens1" else "6", "iflink": lower}
        for file, value in {**values, "broadcast": broadcast}.items():
            put(machine, f"sys/class/net/{name}/{file}", value)
    facts = collector.collect(str(machine))
    assert parse_facts(json.dumps(facts)) == facts
    (found,) = facts["rails"][0]["partitions"]
    assert found == {"netdev": "ens1.8002", "key": "0x8002", "addresses": []}
    assert "mlx5_0: ens1.8002 is the IPoIB interface of partition 0x8002 on ens1" in list(
        variables.remarks(facts)
    )
    assert "ipoib_pkey" not in variables.host_variables(facts)["fabric_rails"][0]
    found["addresses"] = ["192.0.2.1/24"]
    rail = variables.host_variables(facts)["fabric_rails"][0]
    assert (rail["ipoib_pkey"], rail["address"]) == ("0x8002", "192.0.2.1/24")
    found["netdev"] = "data"  # no name that the role gives
    assert "ipoib_pkey" not in variables.host_variables(facts)["fabric_rails"][0]


def test_soft_roce_is_found_by_its_netdev_and_not_the_way_to_the_node(tmp_path: Path):
    for device, netdev in (("rxe0", "enp0s2"), ("rxe1", "ens1"), ("rxe2", "ens2")):
        soft_roce(tmp_path, device, netdev)
    put(tmp_path, "proc/net/route", "Iface Destination Gateway\nenp0s2 00000000 0202000A")
    found = variables.host_variables(collector.collect(str(tmp_path)))
    assert found["fabric_rails"] == [{"netdev": "ens1"}, {"netdev": "ens2"}]
    assert found["fabric_link_gbps"] == 10


def test_port_of_nvswitches_is_known_by_its_product_data(machine: Path):
    """Its card has the model of a rail's: the HGX B200 and B300 have ConnectX-7 for NVSwitches."""
    vpd = machine / "sys/class/infiniband/mlx5_0/device/vpd"
    vpd.write_bytes(b"\x82\x1a\x00ConnectX\x90\x2b\x00V1\x0bSMDL=SW_MNG\xff\xfe")
    found = {
        each["device"]: each["manages_nvswitch"]
        for each in collector.collect(str(machine))["rails"]
    }
    assert found["mlx5_0"]
    assert not any(found[name] for name in found if name != "mlx5_0")


def test_bond_is_named_by_its_network_device(machine: Path):
    """The LAG's RDMA device is on the PCI function of its first port, which is no rail."""
    function = f"{BRIDGES}/0000:17:00.0/0000:18:00.0"
    put(machine, f"{function}/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0", "bond0")
    put(machine, "sys/devices/virtual/net/bond0/bonding/mode", "802.3ad 4")
    put(machine, "sys/devices/virtual/net/bond0/speed", "400000")
    link(machine, "sys/class/net/bond0", "sys/devices/virtual/net/bond0")
    facts = collector.collect(str(machine))
    assert parse_facts(json.dumps(facts)) == facts
    rails = variables.host_variables(facts)["fabric_rails"]
    assert rails == [{"netdev": "bond0", "gpus": [1]}, {"pci": "0000:1a:00.0", "gpus": [0]}]


def test_collector_runs_alone_with_any_directory(tmp_path: Path):
    command = [sys.executable, "-I", "-S", "-", str(tmp_path)]
    source = node_script(Path(collector.__file__))
    found = json.loads(subprocess.check_output(command, input=source))
    assert found["rails"] == found["gpus"] == []


def test_what_the_site_says_of_a_rail_is_kept(machine: Path, tmp_path: Path):
    files = {**sites.GOOD, "host_vars/n1.yml": "fabric_mtu_bytes: 4200\n"}
    node = load_site(sites.write(tmp_path / "site", files)).nodes[0]
    assert variables.host_variables(collector.collect(str(machine)), node)["fabric_rails"] == [
        {"gpus": [1], "netdev": "ens1", "address": "198.18.0.1/24"},
        {"gpus": [0], "netdev": "ens2", "address": "198.18.1.1/24"},
    ]


def test_merge_keeps_comments_and_order(machine: Path, tmp_path: Path):
    text = "---\n# this node\nofed_hold: false  # kept\nfabric_gpu_count: 0\n# the end\n"
    site = sites.write(tmp_path / "site", {**sites.GOOD, "host_vars/n1.yml": text})
    node = load_site(site).nodes[0]
    found, different = variables.compare(
        variables.host_variables(collector.collect(str(machine)), node), node
    )
    assert [each.text for each in different] == ["fabric_gpu_count: the site has 0, the node 2"]
    replaced = {each.name: each.seen for each in different}
    path = variables.merge_host_vars(site, "n1", found | replaced)
    assert path is not None
    merged = path.read_text()
    assert merged.startswith("---\n# this node\nofed_hold: false  # kept\nfabric_gpu_count: 2\n")
    assert "# the end" in merged
    assert yaml.safe_load(merged)["fabric_numa_nodes"] == 2
    assert contract.problems(load_site(site, "n1")) == []


def test_merge_twice_changes_nothing(machine: Path, tmp_path: Path):
    site = sites.write(tmp_path / "site", sites.GOOD)
    facts = collector.collect(str(machine))
    node = load_site(site).nodes[0]
    found, _ = variables.compare(variables.host_variables(facts, node), node)
    assert variables.merge_host_vars(site, "n1", found)
    node = load_site(site).nodes[0]
    assert variables.compare(variables.host_variables(facts, node), node) == ({}, ())


def test_sick_node_does_not_lower_what_the_site_demands(machine: Path, tmp_path: Path):
    """One of its rails is gone, half of its memory, all of its GPUs."""
    text = "fabric_gpu_count: 8\nfabric_memory_bytes: 4T\n"
    site = sites.write(tmp_path / "site", {**sites.GOOD, "host_vars/n1.yml": text})
    facts = collector.collect(str(machine))
    facts["rails"].pop()
    facts["gpus"] = []
    node = load_site(site).nodes[0]
    found, different = variables.compare(variables.host_variables(facts, node), node)
    assert {each.name for each in different} == {
        "fabric_gpu_count",
        "fabric_memory_bytes",
        "fabric_rails",
    }
    assert not found.keys() & {each.name for each in different}


@pytest.mark.program
def test_unreachable_node_is_unknown(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    text = "ansible_host: 127.0.0.1\nansible_port: 1\n"
    site = sites.write(tmp_path / "site", {**sites.GOOD, "group_vars/nodes.yml": text})
    assert run(["discover", str(site), "--limit", "n1"]) == ExitCode.UNKNOWN
    error = capsys.readouterr().err
    assert error.startswith("error: could not read 1 of 1 node; e.g. n1: ssh: connection refused")


@pytest.mark.parametrize(("said", "is_news"), [("2T", False), ("2G", True), ("4T", True)])
def test_installed_memory_is_what_the_kernel_counts_and_a_little(machine, tmp_path, said, is_news):
    files = {**sites.GOOD, "host_vars/n1.yml": f"fabric_memory_bytes: {said}\n"}
    node = load_site(sites.write(tmp_path / "site", files)).nodes[0]
    found = variables.host_variables(collector.collect(str(machine)), node)
    _, different = variables.compare(found, node)
    assert ("fabric_memory_bytes" in {each.name for each in different}) == is_news
