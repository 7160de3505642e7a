"""The rails' links: state, rate, PCIe link, errors, flaps, traffic shaping."""

import json
import re
from collections.abc import Sequence
from contextlib import suppress

import pytest
from testinfra.host import Host

from rdmaprov.contract import waivers
from rdmaprov.facts import (
    CouldNotTell,
    boot,
    counters,
    devices,
    ip,
    lower_ports,
    pci,
    pci_links,
    rails,
)
from rdmaprov.facts.devices import Devices
from rdmaprov.facts.rails import Port
from rdmaprov.facts.text import read_files
from rdmaprov.inventory import Node, Rail
from rdmaprov.validate.verdict import Setting, not_applicable

pytestmark = pytest.mark.links

# IEEE 802.3 and the IBTA specification both ask for a bit error ratio of 1e-12 or better.
_BIT_ERROR_RATIO = 1e-12
# Two changes are one link coming up and one going down: a driver that is loaded may do so some
# times while it negotiates. Beyond that, a link that is changing each day is a bad one.
_CHANGES_AT_START, _CHANGES_A_DAY = 10, 2
# What apply notes of links that it took down itself: module_utils/plan.py.
LINK_NOTE = "/run/rdmaprov/link-changes.json"
# Disciplines that drop, delay or hold back; those that only order or spread are the kernel's own.
# Linux drivers/infiniband/hw/mlx5/data_direct.c
_DATA_DIRECT = "pci:v000015B3d00002100"
_SHAPERS = ("netem", "tbf", "htb", "hfsc", "cbq", "cake")


def test_port_is_active(host: Host, node: Node, rail: Rail) -> None:
    """The RDMA port is ACTIVE: cable, switch port and, on InfiniBand, subnet manager are good."""
    here, port, rdma = _port(host, rail)
    where = f"{devices.INFINIBAND}/{rdma}/ports/1/state"
    look = f"{_look(port)}, then check cable and switch port"
    setting = Setting(node, port.label, "port state", "fabric_rails", where, look=look)
    setting.require(here.port(rdma, "state").partition(": ")[2], "ACTIVE")


def test_physical_link_is_up(host: Host, node: Node, rail: Rail) -> None:
    """The physical link is up; of a bond, that of each port."""
    here, port, rdma = _port(host, rail)
    for each in lower_ports.ports_of(here, rail):
        if each.netdev != port.netdev:
            path = f"{devices.NET}/{each.netdev}/carrier"
            Setting(
                node,
                f"{each.netdev} (of {port.netdev})",
                "carrier",
                "fabric_rails",
                where=path,
                look=f"mlxlink -d {each.pci or rdma}, then check cable and switch port",
            ).require(_carrier(here, path), "up")
    where = f"{devices.INFINIBAND}/{rdma}/ports/1/phys_state"
    look = f"mlxlink -d {port.pci or rdma}, then check cable and switch port"
    setting = Setting(node, port.label, "physical state", "fabric_rails", where, look=look)
    setting.require(here.port(rdma, "phys_state").partition(": ")[2], "LinkUp")


def test_rate(host: Host, node: Node, rail: Rail) -> None:
    """The link negotiated the fabric's rate (lanes × speed).

    A bond's ports together; each the same share, and in active-backup the whole.
    """
    here, port, rdma = _port(host, rail)
    wanted: float = node.link_gbps(rail)
    if here.is_software(rdma):
        not_applicable(f"{rdma} is Soft-RoCE, which has no link rate")
    if node.get("fabric_kind") == "infiniband":
        path = f"{devices.INFINIBAND}/{rdma}/ports/1/rate"
        seen = _infiniband_gbps(here.port(rdma, "rate"), path)
        _rate(node, port, rdma, path).require(f"{seen:g}", f"{wanted:g}")
        return
    wanted /= lower_ports.carrying(here, port.netdev)
    for each in lower_ports.ports_of(here, rail):
        path = f"{devices.NET}/{each.netdev}/speed"
        seen = here.files.number(path) / 1000
        _rate(node, each, rdma, path).require(f"{seen:g}", f"{wanted:g}")


def test_pcie_link(host: Host, node: Node, rail: Rail) -> None:
    """Each PCIe link between root port and NIC carries the rail; a card's slot, all of its rails.

    A slot that rails share on purpose is waived by the rule rails.slot.
    """
    here = devices.read(host)
    loads = _loads(here, node)
    waived = bool(waivers.reason("rails.slot", node))
    for port, hops in _ways(host, rail):
        load = loads[_slot(rails.way_to(here, port))]
        own = load[rail.index]
        wanted = dict.fromkeys(hops, own) | {hops[-1]: own if waived else sum(load.values())}
        short = [hop for hop in hops if hop.current.payload_gbps < wanted[hop]]
        short = [hop for hop in short if not _is_passed_by(host, here, hop, own)]
        if not short:
            continue
        worst = pci_links.narrowest(short)
        if worst.may_carry(wanted[worst]):
            why = f"{port.label}: the PCIe link above {worst.address} idles at {worst.current}"
            raise CouldNotTell(why, f"read it under load: {_pcie(node, port, worst).where}")
        _require_one_way(host, here, port)
        shared = f" of rails {', '.join(map(str, load))}" if wanted[worst] > own else ""
        _pcie(node, port, worst).reject(
            f"{worst.current}, {worst.current.payload_gbps:.0f} Gb/s of data",
            f"{wanted[worst]:g} Gb/s{shared} ({worst.most} is possible here)",
        )


def test_pcie_width(host: Host, node: Node, rail: Rail) -> None:
    """Each PCIe link between root port and NIC has all lanes that both of its ends have."""
    for port, hops in _ways(host, rail):
        for hop in hops:
            if hop.current.width < hop.most.width:
                _pcie(node, port, hop).reject(hop.current, f"x{hop.most.width}")


def test_counters_are_those_of_a_good_link(host: Host, node: Node, rail: Rail) -> None:
    """Each port's error counters do not rise faster than the bit error ratio of a good link."""
    found = counters.growth(host)
    # A link carries symbols all the time, also while no packet passes.
    bits = counters.INTERVAL_S * 1e9 * node.link_gbps(rail)
    allowed = int(bits * _BIT_ERROR_RATIO) + 1
    for port in lower_ports.read(host, rail):
        rdma = port.require_rdma()
        for name, seen in {**found.of(port.netdev), **found.of(rdma)}.items():
            if seen > allowed:
                Setting(
                    node,
                    port.label,
                    f"rise of {name} in {counters.INTERVAL_S} s",
                    "fabric_rails",
                    where=f"ethtool -S {port.netdev}, counters of {rdma}",
                    look=f"mlxlink -d {port.pci or rdma} -c, then clean or replace the cable",
                ).reject(seen, f"at most {allowed}")


def test_link_does_not_flap(host: Host, node: Node, rail: Rail) -> None:
    """The link of each port has not flapped since boot."""
    here, _, _ = _port(host, rail)
    files = read_files(host, boot.BOOT_ID, LINK_NOTE)
    uptime = boot.uptime_s(host)
    allowed = _CHANGES_AT_START + _CHANGES_A_DAY * uptime // 86400
    ours = _noted(files.get(LINK_NOTE), files.get(boot.BOOT_ID))
    for port in lower_ports.ports_of(here, rail):
        if not port.netdev:
            not_applicable(f"{port.rdma} has no network device, which counts changes of its link")
        path = f"{devices.NET}/{port.netdev}/carrier_changes"
        seen = here.files.number(path)
        if seen <= allowed:
            continue
        most = f"at most {allowed} in {uptime // 3600} hours"
        if ours is None:
            raise CouldNotTell(
                f"{path} is {seen}, expected {most}, and no apply has noted in this boot how many "
                "of them it made itself: look into dmesg -T | grep -i link"
            )
        made = ours.get(port.netdev, 0)
        if seen - made <= allowed:
            continue
        name = "changes of the carrier" + (f" without the {made} that apply made" if made else "")
        look = "dmesg -T | grep -i link, then replace the cable"
        setting = Setting(node, port.netdev, name, "fabric_rails", path, look=look)
        setting.reject(seen - made, most)


def _noted(text: str | None, boot: str | None) -> dict[str, int] | None:
    """Return how often apply changed links in this boot, by device; None if it noted nothing."""
    try:
        note = json.loads(text or "")
        if note["boot_id"] != (boot or "").strip():
            return None
        return {str(name): int(count) for name, count in note["changes"].items() if count > 0}
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def test_nothing_holds_packets_back(host: Host, node: Node, rail: Rail) -> None:
    """No queueing discipline on the rail or what it stands on drops, delays or shapes packets."""
    here, port, _ = _port(host, rail)
    if not port.netdev:
        not_applicable(f"{port.rdma} has no network device, so no queueing discipline")
    disciplines = ip.disciplines(host)
    for netdev in lower_ports.with_below(here, port.netdev):
        shapers = [kind for kind in disciplines.get(netdev, ()) if kind in _SHAPERS]
        name, where = "queueing discipline that shapes", f"tc qdisc show dev {netdev}"
        setting = Setting(
            node, netdev, name, "fabric_link_gbps", where, fix=f"tc qdisc del dev {netdev} root"
        )
        setting.require(shapers, [])


def _slot(way: Sequence[str]) -> str:
    """Return what a slot is known by: the bridge above it, which all functions of a card share."""
    return way[-2] if len(way) > 1 else way[-1].rpartition(".")[0]


def _loads(here: Devices, node: Node) -> dict[str, dict[int, float]]:
    """Return what each slot must carry of each rail, Gb/s; a rail that is absent needs nothing."""
    found: dict[str, dict[int, float]] = {}
    for rail in node.rails:
        with suppress(rails.NoDevice):
            rate = node.link_gbps(rail)
            share = rate / lower_ports.carrying(here, rails.port_of(here, rail).netdev)
            for port in lower_ports.ports_of(here, rail):
                if way := rails.way_to(here, port):
                    load = found.setdefault(_slot(way), {})
                    load[rail.index] = min(load.get(rail.index, 0) + share, rate)
    return found


def _is_passed_by(host: Host, here: Devices, hop: pci_links.Hop, gbps: float) -> bool:
    """Return whether it is a switch's uplink, slow by design, that RDMA to a GPU does not pass."""
    if hop.most.payload_gbps >= gbps:
        return False
    gpus = pci.Functions.read(host).gpus()
    return any(hop.address in here.pci_of(f"{devices.PCI}/{gpu}")[:-1] for gpu in gpus)


def _require_one_way(host: Host, here: Devices, port: Port) -> None:
    """Raise CouldNotTell for a card that may have a second way to memory, beside its slot."""
    guids = f"{devices.INFINIBAND}/*/sys_image_guid"
    files = read_files(host, f"{devices.PCI}/*/modalias", guids, quiet=True)
    for match, alias in files.matching(devices.PCI + r"/([^/]+)/modalias"):
        if alias.startswith(_DATA_DIRECT):
            raise CouldNotTell(f"{port.label}: {match[1]} is a Data Direct way past the slot")
    card = files.value(f"{devices.INFINIBAND}/{port.rdma}/sys_image_guid")
    slot = _slot(rails.way_to(here, port))
    for match, seen in files.matching(devices.INFINIBAND + r"/([^/]+)/sys_image_guid"):
        way = here.pci_of(match[0].rpartition("/")[0])
        if card and seen == card and way and _slot(way) != slot:
            raise CouldNotTell(f"{port.label}: its card is in a second slot, too: {way[-1]}")


def _look(port: Port) -> str:
    return f"ethtool {port.netdev}" if port.netdev else f"ibstat {port.rdma}"


def _port(host: Host, rail: Rail) -> tuple[Devices, Port, str]:
    here = devices.read(host)
    port = rails.port_of(here, rail)
    return here, port, port.require_rdma()


def _infiniband_gbps(text: str, path: str) -> float:
    """Return the rate in such as `400 Gb/sec (4X NDR)`."""
    found = re.match(r"(\d+(?:\.\d+)?) Gb/sec", text)
    if found is None:
        raise CouldNotTell(f"{path} shows {text!r}, not a rate")
    return float(found[1])


def _carrier(here: Devices, path: str) -> str:
    """Return up or down; a device that is administratively down has no carrier to read (EINVAL)."""
    try:
        return "up" if here.files.value(path) == "1" else "down"
    except CouldNotTell:
        return "down"


def _rate(node: Node, port: Port, rdma: str, path: str) -> Setting:
    look = f"mlxlink -d {port.pci or rdma}"
    return Setting(node, port.label, "rate Gb/s", "fabric_link_gbps", where=path, look=look)


def _ways(host: Host, rail: Rail) -> list[tuple[Port, tuple[pci_links.Hop, ...]]]:
    here = devices.read(host)
    found = []
    for port in lower_ports.ports_of(here, rail):
        path = rails.way_to(here, port)
        if not path:
            not_applicable(f"{port.label} is not on PCI")
        if pci.Functions.read(host).vendor(path[-1]) == pci.VIRTIO:
            not_applicable(f"{port.label} is virtio, which has no PCIe link")
        found.append((port, pci_links.hops(host, path)))
    return found


def _pcie(node: Node, port: Port, hop: pci_links.Hop) -> Setting:
    return Setting(
        node,
        port.label,
        f"PCIe link above {hop.address}",
        "fabric_rails",
        where=f"{devices.PCI}/{hop.address}/current_link_*",
        look=f"lspci -s {hop.address} -vv, then reseat the card or its riser",
    )
