"""A node's rails: that it fits, addresses, ARP and source routing. Runs on the node.

By default Linux answers ARP on any device for any address it has, so with several rails in one
broadcast domain a peer may learn the wrong one (Linux Documentation/networking/ip-sysctl.rst).
IPv6 needs nothing: neighbours are answered by the device that has the address.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from .. import guard, pci, sysctl
from ..fabric.addresses import plan_addresses
from ..fabric.partition import mode_of, plan_mode, plan_partitions, require_used
from ..fabric.routing import plan_routing, table_of
from ..hugepages import hugetlb
from ..links import Addressing, Links
from ..machine import Machine, NodeError
from ..plan import RUNNING, Change, NotYet, Plan, Refused
from ..rails import Rail, find, require_netdevs

# systemd-sysctl sets what is of a device when it appears (99-systemd.rules), so also after a
# driver's reload.
OWN_FILE = "/etc/sysctl.d/90-rdmaprov-fabric.conf"
SETTINGS = {
    "arp_ignore": ("1", "answer only for addresses of the device that was asked"),
    "arp_announce": ("2", "ask in the name of the address that the peer knows"),
    # The kernel takes the larger of `all` and this: 1 (strict) on `all` becomes 2 here.
    "rp_filter": ("2", "take in what may come another way: peers answer by their own tables"),
}
# Linux include/uapi/linux/if_arp.h: ARPHRD_ETHER, ARPHRD_INFINIBAND; what the kernel calls
# the link layer of an RDMA port: drivers/infiniband/core/sysfs.c, link_layer_show.
_KINDS = {"roce": ("1", "Ethernet"), "infiniband": ("32", "InfiniBand")}
# The kernel keeps 1/64 for its page structures, and more for itself: as much as a small machine's
# 256 MiB. A lost memory module is more: one of 16 is 1/16.
_KERNELS_SHARE = 1 / 25
_KERNELS_BYTES = 256 << 20
# Before the rule that leads to the table `main`, 32766, and after what container networks use.
RULE_PRIORITY = 1000


def plan_arp(plan: Plan, rails: list[Rail], entries: int = 0) -> None:
    """Add the steps after which the rails answer for themselves alone, now and after a boot.

    Args:
        rails: those with an IPv4 address.
        entries: that the node's neighbor tables must hold; 0 leaves them alone.
    """
    tables = _tables(plan.machine, entries)
    text = _text(rails, tables)
    _require_last(plan.machine, rails, text, tables)
    for key, wanted in tables.items():
        _plan_running(plan, "neighbor table", key, key.replace("/", "."), wanted)
    for rail in rails:
        for name, (wanted, _) in SETTINGS.items():
            _plan_running(plan, rail.netdev, _key(rail.netdev, name), name, wanted)
    if rails or tables:
        plan.file(OWN_FILE, text)
    else:
        plan.absent(OWN_FILE)


def _plan_running(plan: Plan, device: str, key: str, name: str, wanted: str) -> None:
    path = sysctl.path_of(key)
    seen = plan.machine.value(path)
    if seen == wanted:
        return
    undo = [["sysctl", "-q", "-w", f"{key}={seen}"]]
    change = Change(RUNNING, device, name, seen or "unknown", wanted)
    plan.add(change, lambda: plan.machine.set(path, wanted), undo)


def _tables(machine: Machine, entries: int) -> dict[str, str]:
    """Return by sysctl's name the sizes of the neighbor tables (arp(7)); a larger one stays."""
    found = {}
    for family in ("ipv4", "ipv6"):
        for number, factor in ((1, 1), (2, 2), (3, 4)):
            key = f"net/{family}/neigh/default/gc_thresh{number}"
            seen = machine.value(sysctl.path_of(key))
            if entries and seen is not None and seen.isdigit():
                found[key] = str(max(entries * factor, int(seen)))
    return found


def _key(netdev: str, name: str) -> str:
    # With slashes a dot in a device's name is one (sysctl.d(5)).
    return f"net/ipv4/conf/{netdev}/{name}"


def _text(rails: list[Rail], tables: dict[str, str]) -> str:
    lines = ["# Written by rdmaprov (fabric); changes here are lost."]
    if rails:
        lines += [f"# {name}: {why}." for name, (_, why) in SETTINGS.items()]
    for rail in rails:
        lines += [f"{_key(rail.netdev, name)} = {value}" for name, (value, _) in SETTINGS.items()]
    lines += [f"{key} = {value}" for key, value in tables.items()]
    return "\n".join(lines) + "\n"


def _require_last(machine: Machine, rails: list[Rail], text: str, tables: dict[str, str]) -> None:
    """Refuse a later file that sets one of these otherwise at each boot, or a table smaller."""
    found = sysctl.at_boot(machine, {OWN_FILE: text})
    values = {name: wanted for name, (wanted, _) in SETTINGS.items()}
    own = {_key(rail.netdev, name): values[name] for rail in rails for name in values}
    for key, wanted in {**own, **tables}.items():
        last = found[sysctl.path_of(key)]
        is_larger = key in tables and last.value.isdigit() and int(last.value) > int(wanted)
        if last.value != wanted and not is_larger:
            raise Refused(
                f"{last.file}:{last.line}: sets {key} to {last.value} at boot, after {OWN_FILE}; "
                f"expected {wanted}. Remove that line"
            )


def require(machine: Machine, rails: list[Rail], arguments: dict[str, Any]) -> None:
    """Raise Refused for a node that does not fit; nothing may be written on it."""
    for rail in rails:
        _require_kind(machine, rail, arguments["kind"])
    _require_memory(machine, arguments["memory_bytes"])
    _require_numa_nodes(machine, arguments["numa_nodes"])
    described = arguments["gpu_count"]
    seen = len(pci.gpus(machine))
    if described and seen != described:
        raise Refused(
            f"the node has {seen} GPUs, expected {described} (fabric_gpu_count; "
            "/sys/bus/pci/devices). Run on the node: lspci -nn -d ::0302"
        )


def _require_kind(machine: Machine, rail: Rail, kind: str) -> None:
    hardware, layer = _KINDS[kind]
    path = f"/sys/class/net/{rail.port}/type"
    if rail.port and machine.value(path) != hardware:
        raise Refused(
            f"rail {rail.index}: {rail.port} has the hardware type {machine.value(path)}, "
            f"expected {hardware} for fabric_kind: {kind} ({path}). Correct fabric_kind or the "
            "rail; Ethernet for storage beside InfiniBand is no rail: leave it out of fabric_rails"
        )
    path = f"/sys/class/infiniband/{rail.rdma}/ports/1/link_layer"
    if rail.rdma and machine.value(path) != layer:
        raise Refused(
            f"rail {rail.index}: {rail.rdma} has the link layer {machine.value(path)}, expected "
            f"{layer} for fabric_kind: {kind} ({path}). Correct fabric_kind, or the port's type "
            "(mlxconfig: LINK_TYPE_P1)"
        )


def _require_memory(machine: Machine, described: int | None) -> None:
    if described is None:
        return
    found = re.search(r"MemTotal:\s+(\d+) kB", machine.read("/proc/meminfo") or "")
    if found is None:
        raise NodeError("/proc/meminfo has no MemTotal, so the node's memory is not known")
    seen = int(found.group(1)) * 1024
    if seen < described * (1 - _KERNELS_SHARE) - _KERNELS_BYTES:
        raise Refused(
            f"the node has {seen / (1 << 30):.1f} GiB of memory, expected "
            f"{described / (1 << 30):.1f} (fabric_memory_bytes; /proc/meminfo). "
            "Is a memory module missing? Run on the node: dmidecode --type memory"
        )


def _require_numa_nodes(machine: Machine, described: int | None) -> None:
    if described is None:
        return
    seen = len(hugetlb.numa_nodes(machine))
    if seen < described:
        raise Refused(
            f"the node has {seen} NUMA nodes, expected {described} (fabric_numa_nodes; "
            "/sys/devices/system/node). Look for NPS, SNC and interleaving in the firmware's setup"
        )


def plan(machine: Machine, arguments: dict[str, Any]) -> Plan:
    """Return what must change for every rail to be reached, and to answer by itself.

    Raises:
        Refused: the node does not fit.
        NotYet: a rail's device is not there.
    """
    plan = Plan(machine)
    rails = find(machine, arguments["rails"])
    require_used(rails, arguments)
    require(machine, rails, arguments)
    if arguments["kind"] == "infiniband" and not arguments["ipoib"]:
        _require_rdma(rails)
        return plan
    require_netdevs(rails)
    addressed = [(rail, _addressing(rail, arguments)) for rail in rails]
    routed = [(rail, each) for rail, each in addressed if each.table]
    links = Links(machine, arguments["link_manager"])
    plan_partitions(plan, rails)
    plan_mode(plan, rails, mode_of(arguments))
    plan_addresses(
        plan, rails, {each.netdev: links.of(each.port).own_addresses(each.netdev) for each in rails}
    )
    plan_routing(plan, routed)
    plan_arp(
        plan, [rail for rail, each in routed if each.family == "-4"], arguments["neighbor_entries"]
    )
    touched = [*rails, *(replace(each, netdev=each.parent) for each in rails if each.parent)]
    guard.require(plan, touched, arguments)
    _plan_links(plan, addressed, links)
    guard.require(plan, touched, arguments)
    for netdev in {rail.netdev for rail in rails}.intersection(plan.guarded):
        links.of(netdev).require_kept(netdev)
    if not plan.steps:
        _require_rdma(rails)
    return plan


def _addressing(rail: Rail, arguments: dict[str, Any]) -> Addressing:
    if not rail.address or not arguments["source_routing"]:
        if rail.gateway:
            raise Refused(
                f"rail {rail.index}: a gateway ({rail.gateway}) is only used with an address and "
                "fabric_source_routing: true. Remove it or write those"
            )
        return Addressing(rail.address, ipoib_mode=mode_of(arguments))
    return Addressing(
        rail.address,
        rail.gateway,
        table_of(rail, arguments["routing_table_base"]),
        RULE_PRIORITY + rail.index,
        mode_of(arguments),
    )


def _plan_links(plan: Plan, addressed: list[tuple[Rail, Addressing]], links: Links) -> None:
    links.leftovers(plan, [rail for rail, _ in addressed])
    for rail, wanted in addressed:
        links.of(rail.port).address(plan, rail, wanted)
    links.settle(plan)


def _require_rdma(rails: list[Rail]) -> None:
    """Raise NotYet for a rail without an RDMA device, once all else is right."""
    for rail in rails:
        if not rail.rdma:
            raise NotYet(
                f"rail {rail.index}: there is no RDMA device on {rail.netdev} "
                "(/sys/class/infiniband). Is its driver loaded? Run on the node: rdma link"
            )
