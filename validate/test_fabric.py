"""The rails: present, up, addressed, routed, with their own ARP; and the node's GPUs and memory."""

import ipaddress

import pytest
from testinfra.host import Host

from rdmaprov.facts import devices, ip, link_files, memory, pci, rails, sysctl
from rdmaprov.facts.processors import processors
from rdmaprov.facts.text import Files, read_files
from rdmaprov.inventory import Node, Rail
from rdmaprov.inventory.model import Interface
from rdmaprov.validate.verdict import AFTER_REBOOT, RUNNING, Setting, needs_ipoib, not_applicable

pytestmark = pytest.mark.state

# Linux include/uapi/linux/if.h
_UP = 0x1
_RULE_PRIORITY = 1000
_LINK_LAYERS = {"roce": "Ethernet", "infiniband": "InfiniBand"}
_NODES = "/sys/devices/system/node"
_TABLES = tuple(
    f"/proc/sys/net/{family}/neigh/default/gc_thresh{number}"
    for family in ("ipv4", "ipv6")
    for number in (1, 2, 3)
)


def test_rail_has_network_device(host: Host, node: Node, rail: Rail) -> None:
    """The rail's network device exists; on InfiniBand without IPoIB, its RDMA device."""
    here = devices.read(host)
    try:
        port = rails.port_of(here, rail)
        if node.uses_netdevs:
            port.require_netdev()
    except rails.NoDevice as error:
        name, look = "network device", "ip link; lspci -nnk"
        setting = Setting(node, f"rail {rail.index}", name, "fabric_rails", devices.NET, look=look)
        setting.reject("absent: " + error.why, rail.name)


def test_rail_has_rdma_device(host: Host, node: Node, rail: Rail) -> None:
    """The rail has an RDMA device."""
    port = rails.port(host, rail)
    if not port.rdma:
        where = devices.INFINIBAND
        setting = Setting(node, port.netdev, "RDMA device", "fabric_rails", where, look="rdma link")
        setting.reject(None, "one")


def test_rail_is_of_the_fabrics_kind(host: Host, node: Node, rail: Rail) -> None:
    """The rail's link layer is that of the fabric."""
    here = devices.read(host)
    rdma = rails.port_of(here, rail).require_rdma()
    name, where = "link layer", f"{devices.INFINIBAND}/{rdma}/ports/1/link_layer"
    setting = Setting(
        node, rdma, name, "fabric_kind", where, look=f"mlxconfig -d {rdma} query LINK_TYPE_P1"
    )
    setting.require(here.port(rdma, "link_layer"), _LINK_LAYERS[node.get("fabric_kind")])


def test_rail_is_up(host: Host, node: Node, rail: Rail) -> None:
    """The rail's network device is administratively up; test_links.py checks the cable."""
    needs_ipoib(node)
    here = devices.read(host)
    netdev = rails.port_of(here, rail).require_netdev()
    flags = int(here.netdev(netdev, "flags"), 16)
    Setting(node, netdev, "link", "fabric_rails", where=f"{devices.NET}/{netdev}/flags").require(
        "up" if flags & _UP else "down", "up"
    )


def test_rail_has_its_address(host: Host, node: Node, rail: Rail) -> None:
    """The rail has the site's address, and so the GID that its peers use."""
    address = _address(rail)
    netdev = rails.port(host, rail).require_netdev()
    seen = ip.addresses(host).get(netdev, ())
    if not any(ip.same(each, str(address)) for each in seen):
        Setting(
            node, netdev, "address", "fabric_rails", where=f"ip address show dev {netdev}"
        ).reject(seen, address)


def test_rail_has_no_other_rails_address(host: Host, node: Node, rail: Rail) -> None:
    """The rail has no address of another rail: cables or names would be swapped."""
    needs_ipoib(node)
    netdev = rails.port(host, rail).require_netdev()
    others = {str(each.address.ip): each.index for each in node.rails if each.address}
    for seen in ip.addresses(host).get(netdev, ()):
        owner = others.get(str(ipaddress.ip_interface(seen).ip), rail.index)
        if owner != rail.index:
            Setting(
                node, netdev, "address", "fabric_rails", where=f"ip address show dev {netdev}"
            ).reject(f"{seen} of rail {owner}", rail.address or "none of another rail")


def test_address_after_reboot(host: Host, node: Node, rail: Rail) -> None:
    """The next boot sets the rail's address."""
    address = _address(rail)
    netdev = rails.port(host, rail).require_netdev()
    boot = link_files.boot_settings(link_files.read(host), netdev)
    if not any(ip.same(each, str(address)) for each in boot.addresses):
        Setting(
            node, netdev, "address", "fabric_rails", where=boot.where, truth=AFTER_REBOOT
        ).reject(boot.addresses, address)


def test_source_routing_rule_running(host: Host, node: Node, rail: Rail) -> None:
    """Packets from the rail's address use the rail's own routing table."""
    address, table = _routed(node, rail)
    netdev = rails.port(host, rail).require_netdev()
    wanted = ip.RoutingRule(_RULE_PRIORITY + rail.index, str(address.ip), table)
    seen = ip.rules(host, address.version)
    if wanted not in seen:
        where = f"ip -{address.version} rule show"
        setting = Setting(node, netdev, "routing rule", "fabric_source_routing", where)
        setting.reject([rule for rule in seen if rule.source == wanted.source], wanted)


def test_source_routing_table_running(host: Host, node: Node, rail: Rail) -> None:
    """The rail's routing table has its subnet, and its gateway if the site sets one."""
    address, table = _routed(node, rail)
    netdev = rails.port(host, rail).require_netdev()
    wanted = set()
    if address.network.prefixlen < address.max_prefixlen:
        wanted.add(ip.Route(str(address.network), "", netdev))
    if rail.gateway:
        wanted.add(ip.Route("default", rail.gateway, netdev))
    seen = set(ip.routes(host, address.version, table))
    where = f"ip -{address.version} route show table {table}"
    setting = Setting(node, netdev, f"routing table {table}", "fabric_rails", where)
    setting.require(sorted(map(str, seen)), sorted(map(str, wanted)))


def test_source_routing_after_reboot(host: Host, node: Node, rail: Rail) -> None:
    """The next boot sets the rule that selects the rail's routing table."""
    address, table = _routed(node, rail)
    netdev = rails.port(host, rail).require_netdev()
    boot = link_files.boot_settings(link_files.read(host), netdev)
    if (str(address.ip), str(table)) not in boot.rules:
        name = "routing rule"
        setting = Setting(node, netdev, name, "fabric_source_routing", boot.where, AFTER_REBOOT)
        setting.reject(
            [f"from {a} table {b}" for a, b in boot.rules], f"from {address.ip} table {table}"
        )


def test_arp_ignore_running(host: Host, node: Node, rail: Rail) -> None:
    """The rail answers ARP for its own address only."""
    _arp_running(host, node, rail, "arp_ignore", "1")


def test_arp_announce_running(host: Host, node: Node, rail: Rail) -> None:
    """The rail sends ARP requests from its own address."""
    _arp_running(host, node, rail, "arp_announce", "2")


def test_rp_filter_running(host: Host, node: Node, rail: Rail) -> None:
    """The rail accepts packets that its peers route by their own tables (loose rp_filter)."""
    _arp_running(host, node, rail, "rp_filter", "2")


def test_arp_settings_after_reboot(host: Host, node: Node, rail: Rail) -> None:
    """The next boot sets the rail's ARP settings."""
    _ipv4_routed(node, rail)
    netdev = rails.port(host, rail).require_netdev()
    at_boot = sysctl.at_boot(read_files(host, *sysctl.PATHS))
    for name, wanted in (("arp_ignore", "1"), ("arp_announce", "2"), ("rp_filter", "2")):
        path = f"/proc/sys/net/ipv4/conf/{netdev}/{name}"
        seen, file = at_boot.get(path, (None, ", ".join(sysctl.DIRECTORIES)))
        Setting(
            node, netdev, name, "fabric_source_routing", where=file, truth=AFTER_REBOOT
        ).require(seen, wanted)


def test_neighbor_tables_running(host: Host, node: Node) -> None:
    """The kernel's neighbor tables hold all nodes in the rails' subnets."""
    files = read_files(host, *_TABLES)
    for path, least in _tables(node, files).items():
        _at_least(node, path, files.must(path), least, path, RUNNING)


def test_neighbor_tables_after_reboot(host: Host, node: Node) -> None:
    """The next boot makes the kernel's neighbor tables as large."""
    at_boot = sysctl.at_boot(read_files(host, *sysctl.PATHS))
    for path, least in _tables(node, read_files(host, *_TABLES)).items():
        seen, file = at_boot.get(path, ("", ", ".join(sysctl.DIRECTORIES)))
        _at_least(node, path, seen, least, file, AFTER_REBOOT)


def _tables(node: Node, files: Files) -> dict[str, int]:
    """Return the kernel's files and the least that they must have; no IPv6 where it is off."""
    needs_ipoib(node)
    entries = node.get("fabric_neighbor_entries")
    has_ipv6 = any(path.startswith("/proc/sys/net/ipv6") for path in files.texts)
    return {
        path: entries * factor
        for path, factor in zip(_TABLES, (1, 2, 4) * 2, strict=True)
        if entries and (has_ipv6 or "ipv4" in path)
    } or not_applicable("fabric_neighbor_entries: 0")


def _at_least(node: Node, path: str, seen: str, least: int, where: str, truth: str) -> None:
    if not seen.isdigit() or int(seen) < least:
        name = path.removeprefix("/proc/sys/").replace("/", ".")
        Setting(node, "", name, "fabric_neighbor_entries", where=where, truth=truth).reject(
            seen or None, f"{least} or more"
        )


def test_node_has_its_gpus(host: Host, node: Node) -> None:
    """All GPUs of the node are on the PCI bus."""
    wanted = node.get("fabric_gpu_count")
    if not wanted:
        not_applicable("the site does not set fabric_gpu_count")
    seen = pci.Functions.read(host).gpus()
    if len(seen) != wanted:
        Setting(
            node, "GPUs", "number", "fabric_gpu_count", where=devices.PCI, look="lspci -nn"
        ).reject(f"{len(seen)} ({', '.join(seen) or 'none'})", wanted)


def test_node_has_its_numa_nodes(host: Host, node: Node) -> None:
    """The node has at least the site's number of NUMA nodes."""
    wanted = node.get("fabric_numa_nodes")
    if wanted is None:
        not_applicable("the site does not set fabric_numa_nodes")
    path = f"{_NODES}/has_normal_memory"
    files = read_files(host, path, f"{_NODES}/online")
    seen = len(processors(files.value(path) or files.must(f"{_NODES}/online"), path))
    if seen < wanted:
        look = "lscpu, then check NPS and sub-NUMA clustering in the BIOS"
        setting = Setting(node, "NUMA nodes", "number", "fabric_numa_nodes", path, look=look)
        setting.reject(seen, wanted)


def test_node_has_its_memory(host: Host, node: Node) -> None:
    """The node has its memory, less what the kernel reserves: no module is missing."""
    wanted = node.get("fabric_memory_bytes")
    if wanted is None:
        not_applicable("the site does not set fabric_memory_bytes")
    seen = memory.total_bytes(host)
    if seen < memory.minimum_bytes(wanted):
        look = "dmidecode --type memory"
        setting = Setting(node, "memory", "size", "fabric_memory_bytes", "/proc/meminfo", look=look)
        setting.reject(f"{seen >> 20} MiB", f"{wanted >> 20} MiB less what the kernel keeps")


def _address(rail: Rail) -> Interface:
    if rail.address is None:
        not_applicable("the site sets no address on this rail")
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
        not_applicable("IPv6 has no ARP")


def _arp_running(host: Host, node: Node, rail: Rail, name: str, wanted: str) -> None:
    _ipv4_routed(node, rail)
    netdev = rails.port(host, rail).require_netdev()
    conf = "/proc/sys/net/ipv4/conf/*/"
    files = read_files(host, *(conf + each for each in ("arp_ignore", "arp_announce", "rp_filter")))
    path = f"/proc/sys/net/ipv4/conf/{netdev}/{name}"
    Setting(node, netdev, name, "fabric_source_routing", where=path).require(
        files.must(path), wanted
    )
