"""The rails: there, up, with their address, answering for themselves alone; and the node fits."""

from __future__ import annotations

import ipaddress

import pytest
from testinfra.host import Host

from rdmaprov.facts import devices, ip, link_files, memory, pci, sysctl
from rdmaprov.facts.text import processors, read_files
from rdmaprov.facts.verdict import AFTER_REBOOT, not_applicable, reject, require
from rdmaprov.inventory import Node, Rail
from rdmaprov.inventory.model import Interface

pytestmark = pytest.mark.state

# Linux include/uapi/linux/if.h
_UP = 0x1
_RULE_PRIORITY = 1000
_LINK_LAYERS = {"roce": "Ethernet", "infiniband": "InfiniBand"}
_NODES = "/sys/devices/system/node"


def test_rail_has_network_device(host: Host, node: Node, rail: Rail) -> None:
    """The network device that the site names is there."""
    here = devices.read(host)
    try:
        devices.port_of(here, rail)
    except devices.NoDevice as error:
        reject(
            node, f"rail {rail.index}", "network device", seen="absent: " + error.message,
            wanted=rail.netdev or rail.pci, variable="fabric_rails", where=devices.NET,
            run="ip link; lspci -nnk",
        )  # fmt: skip


def test_rail_has_rdma_device(host: Host, node: Node, rail: Rail) -> None:
    """There is an RDMA device on the rail's network device."""
    port = devices.port(host, rail)
    if not port.rdma:
        reject(
            node, port.netdev, "RDMA device", seen=None, wanted="one", variable="fabric_rails",
            where=devices.INFINIBAND, run="rdma link",
        )  # fmt: skip


def test_rail_is_of_the_fabrics_kind(host: Host, node: Node, rail: Rail) -> None:
    """The rail's link layer is that of the fabric."""
    here = devices.read(host)
    rdma = devices.port_of(here, rail).require_rdma()
    require(
        node, rdma, "link layer", seen=here.port(rdma, "link_layer"),
        wanted=_LINK_LAYERS[node.get("fabric_kind")], variable="fabric_kind",
        where=f"{devices.INFINIBAND}/{rdma}/ports/1/link_layer",
        run="mlxconfig query (LINK_TYPE_P1)",
    )  # fmt: skip


def test_rail_is_up(host: Host, node: Node, rail: Rail) -> None:
    """The rail's network device is switched on; whether a cable is in, test_links.py says."""
    here = devices.read(host)
    netdev = devices.port_of(here, rail).netdev
    flags = int(here.netdev(netdev, "flags"), 16)
    require(
        node, netdev, "link", seen="up" if flags & _UP else "down", wanted="up",
        variable="fabric_rails", where=f"{devices.NET}/{netdev}/flags",
    )  # fmt: skip


def test_rail_has_its_address(host: Host, node: Node, rail: Rail) -> None:
    """The rail has the address of the site, and with it the GID by which others reach it."""
    address = _address(rail)
    netdev = devices.port(host, rail).netdev
    seen = ip.addresses(host).get(netdev, ())
    if not any(ip.same(each, str(address)) for each in seen):
        reject(
            node, netdev, "address", seen=seen, wanted=address, variable="fabric_rails",
            where=f"ip address show dev {netdev}",
        )  # fmt: skip


def test_rail_has_no_other_rails_address(host: Host, node: Node, rail: Rail) -> None:
    """No address of another rail is on this one: cables or names would be exchanged."""
    netdev = devices.port(host, rail).netdev
    others = {str(each.address.ip): each.index for each in node.rails if each.address}
    for seen in ip.addresses(host).get(netdev, ()):
        owner = others.get(str(ipaddress.ip_interface(seen).ip), rail.index)
        if owner != rail.index:
            reject(
                node, netdev, "address", seen=f"{seen} of rail {owner}",
                wanted=rail.address or "none of another rail", variable="fabric_rails",
                where=f"ip address show dev {netdev}",
            )  # fmt: skip


def test_address_after_reboot(host: Host, node: Node, rail: Rail) -> None:
    """A boot gives the rail its address."""
    address = _address(rail)
    netdev = devices.port(host, rail).netdev
    boot = link_files.of_device(link_files.read(host), netdev)
    if not any(ip.same(each, str(address)) for each in boot.addresses):
        reject(
            node, netdev, "address", seen=boot.addresses, wanted=address, variable="fabric_rails",
            where=boot.where, truth=AFTER_REBOOT,
        )  # fmt: skip


def test_source_routing_rule_running(host: Host, node: Node, rail: Rail) -> None:
    """What is sent from the rail's address goes by the rail's own table."""
    address, table = _routed(node, rail)
    netdev = devices.port(host, rail).netdev
    wanted = ip.Rule(_RULE_PRIORITY + rail.index, str(address.ip), table)
    seen = ip.rules(host, address.version)
    if wanted not in seen:
        reject(
            node, netdev, "routing rule",
            seen=[rule for rule in seen if rule.source == wanted.source], wanted=wanted,
            variable="fabric_source_routing", where=f"ip -{address.version} rule show",
        )  # fmt: skip


def test_source_routing_table_running(host: Host, node: Node, rail: Rail) -> None:
    """The rail's own table leads to its subnet, and to its router if it has one."""
    address, table = _routed(node, rail)
    netdev = devices.port(host, rail).netdev
    wanted = {ip.Route(str(address.network), "", netdev)}
    if rail.gateway:
        wanted.add(ip.Route("default", rail.gateway, netdev))
    seen = set(ip.routes(host, address.version, table))
    require(
        node, netdev, f"routing table {table}", seen=sorted(map(str, seen)),
        wanted=sorted(map(str, wanted)), variable="fabric_rails",
        where=f"ip -{address.version} route show table {table}",
    )  # fmt: skip


def test_source_routing_after_reboot(host: Host, node: Node, rail: Rail) -> None:
    """A boot makes the rule that leads to the rail's own table."""
    address, table = _routed(node, rail)
    netdev = devices.port(host, rail).netdev
    boot = link_files.of_device(link_files.read(host), netdev)
    if (str(address.ip), str(table)) not in boot.rules:
        reject(
            node, netdev, "routing rule", seen=[f"from {a} table {b}" for a, b in boot.rules],
            wanted=f"from {address.ip} table {table}", variable="fabric_source_routing",
            where=boot.where, truth=AFTER_REBOOT,
        )  # fmt: skip


def test_arp_ignore_running(host: Host, node: Node, rail: Rail) -> None:
    """The rail answers ARP for its own address only."""
    _arp_running(host, node, rail, "arp_ignore", "1")


def test_arp_announce_running(host: Host, node: Node, rail: Rail) -> None:
    """The rail asks in the name of an address that its peers know."""
    _arp_running(host, node, rail, "arp_announce", "2")


def test_rp_filter_running(host: Host, node: Node, rail: Rail) -> None:
    """The rail takes in what its peers send by tables of their own."""
    _arp_running(host, node, rail, "rp_filter", "2")


def test_arp_settings_after_reboot(host: Host, node: Node, rail: Rail) -> None:
    """A boot has the rail answer for itself alone."""
    _ipv4_routed(node, rail)
    netdev = devices.port(host, rail).netdev
    at_boot = sysctl.at_boot(read_files(host, *sysctl.PATHS))
    for name, wanted in (("arp_ignore", "1"), ("arp_announce", "2"), ("rp_filter", "2")):
        path = f"/proc/sys/net/ipv4/conf/{netdev}/{name}"
        seen, file = at_boot.get(path, (None, ", ".join(sysctl.DIRECTORIES)))
        require(
            node, netdev, name, seen=seen, wanted=wanted, variable="fabric_source_routing",
            where=file, truth=AFTER_REBOOT,
        )  # fmt: skip


def test_node_has_its_gpus(host: Host, node: Node) -> None:
    """All GPUs of the node are on its PCI bus."""
    wanted = node.get("fabric_gpu_count")
    if not wanted:
        not_applicable("the site does not say fabric_gpu_count")
    seen = pci.Functions.read(host).gpus()
    if len(seen) != wanted:
        reject(
            node, "GPUs", "number", seen=f"{len(seen)} ({', '.join(seen) or 'none'})",
            wanted=wanted, variable="fabric_gpu_count", where=devices.PCI, run="lspci -nn -d 10de:",
        )  # fmt: skip


def test_node_has_its_numa_nodes(host: Host, node: Node) -> None:
    """The node has the NUMA nodes that the site counts on."""
    wanted = node.get("fabric_numa_nodes")
    if wanted is None:
        not_applicable("the site does not say fabric_numa_nodes")
    path = f"{_NODES}/online"
    seen = len(processors(read_files(host, path).must(path), path))
    if seen < wanted:
        reject(
            node, "NUMA nodes", "number", seen=seen, wanted=wanted, variable="fabric_numa_nodes",
            where=path, run="lscpu (and see the BIOS: NPS, sub-NUMA clustering)",
        )  # fmt: skip


def test_node_has_its_memory(host: Host, node: Node) -> None:
    """No memory module is missing, beyond what the kernel keeps for itself."""
    wanted = node.get("fabric_memory_bytes")
    if wanted is None:
        not_applicable("the site does not say fabric_memory_bytes")
    seen = memory.total_bytes(host)
    if seen < memory.least(wanted):
        reject(
            node, "memory", "size", seen=f"{seen >> 20} MiB",
            wanted=f"{wanted >> 20} MiB less what the kernel keeps",
            variable="fabric_memory_bytes", where="/proc/meminfo",
            run="dmidecode --type memory",
        )  # fmt: skip


def _address(rail: Rail) -> Interface:
    if rail.address is None:
        not_applicable("the site gives this rail no address")
    return rail.address


def _routed(node: Node, rail: Rail) -> tuple[Interface, int]:
    """Return a rail's address and table, if it is to have a table of its own."""
    address = _address(rail)
    if not node.get("fabric_source_routing"):
        not_applicable("fabric_source_routing: false")
    return address, node.get("fabric_routing_table_base") + rail.index


def _ipv4_routed(node: Node, rail: Rail) -> None:
    address, _ = _routed(node, rail)
    if address.version != 4:
        not_applicable("IPv6 has no ARP: neighbours are answered by the device with the address")


def _arp_running(host: Host, node: Node, rail: Rail, name: str, wanted: str) -> None:
    _ipv4_routed(node, rail)
    netdev = devices.port(host, rail).netdev
    conf = "/proc/sys/net/ipv4/conf/*/"
    files = read_files(host, *(conf + each for each in ("arp_ignore", "arp_announce", "rp_filter")))
    path = f"/proc/sys/net/ipv4/conf/{netdev}/{name}"
    require(
        node, netdev, name, seen=files.must(path), wanted=wanted,
        variable="fabric_source_routing", where=path,
    )  # fmt: skip
