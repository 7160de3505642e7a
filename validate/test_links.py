"""The rails' links: state, rate, PCIe link, errors, flaps, traffic shaping."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest
from testinfra.host import Host

from rdmaprov.facts import CouldNotTell, counters, devices, ip, pci
from rdmaprov.facts.devices import Devices, Port
from rdmaprov.facts.text import read_files
from rdmaprov.inventory import Node, Rail
from rdmaprov.validate.verdict import Setting, not_applicable

pytestmark = pytest.mark.links

# IEEE 802.3 and the IBTA specification both ask for a bit error ratio of 1e-12 or better.
_BIT_ERROR_RATIO = 1e-12
# Two changes are one link coming up and one going down: a driver that is loaded may do so some
# times while it negotiates. Beyond that, a link that is changing each day is a bad one.
_CHANGES_AT_START, _CHANGES_A_DAY = 10, 2
# Disciplines that drop, delay or hold back; those that only order or spread are the kernel's own.
_SHAPERS = ("netem", "tbf", "htb", "hfsc", "cbq", "cake")


def test_port_is_active(host: Host, node: Node, rail: Rail) -> None:
    """The RDMA port is ACTIVE: cable, switch port and, on InfiniBand, subnet manager are good."""
    here, port, rdma = _port(host, rail)
    Setting(
        node,
        f"{port.netdev} {rdma}",
        "port state",
        "fabric_rails",
        where=f"{devices.INFINIBAND}/{rdma}/ports/1/state",
        look=f"ethtool {port.netdev}, then check cable and switch port",
    ).require(here.port(rdma, "state").partition(": ")[2], "ACTIVE")


def test_physical_link_is_up(host: Host, node: Node, rail: Rail) -> None:
    """The physical link is up."""
    here, port, rdma = _port(host, rail)
    Setting(
        node,
        f"{port.netdev} {rdma}",
        "physical state",
        "fabric_rails",
        where=f"{devices.INFINIBAND}/{rdma}/ports/1/phys_state",
        look=f"mlxlink -d {port.pci or rdma}, then check cable and switch port",
    ).require(here.port(rdma, "phys_state").partition(": ")[2], "LinkUp")


def test_rate(host: Host, node: Node, rail: Rail) -> None:
    """The link negotiated the fabric's rate (lanes × speed)."""
    here, port, rdma = _port(host, rail)
    wanted = node.get("fabric_link_gbps")
    if here.is_software(rdma):
        not_applicable(f"{rdma} is Soft-RoCE, which has no link rate")
    if node.get("fabric_kind") == "infiniband":
        path = f"{devices.INFINIBAND}/{rdma}/ports/1/rate"
        seen = _infiniband_gbps(here.port(rdma, "rate"), path)
    else:
        path = f"{devices.NET}/{port.netdev}/speed"
        seen = here.files.number(path) / 1000
    Setting(
        node,
        f"{port.netdev} {rdma}",
        "rate Gb/s",
        "fabric_link_gbps",
        where=path,
        look=f"mlxlink -d {port.pci}",
    ).require(f"{seen:g}", f"{wanted:g}")


def test_pcie_link(host: Host, node: Node, rail: Rail) -> None:
    """No PCIe link between root port and NIC is slower than the NIC supports."""
    here, port, rdma = _port(host, rail)
    path = here.pci_of(f"{devices.NET}/{port.netdev}")
    if not path:
        not_applicable(f"{port.netdev} is not on PCI")
    if pci.Functions.read(host).vendor(path[-1]) == pci.VIRTIO:
        not_applicable(f"{port.netdev} is virtio, which has no PCIe link")
    hops = pci.hops(host, path)
    narrowest, wanted = pci.narrowest(hops), hops[-1].most
    if narrowest.current.gbps < wanted.gbps:
        Setting(
            node,
            f"{port.netdev} {rdma}",
            f"PCIe link above {narrowest.address}",
            "fabric_rails",
            where=f"{devices.PCI}/{narrowest.address}/current_link_*",
            look=f"lspci -s {narrowest.address} -vv, then reseat the card or its riser",
        ).reject(narrowest.current, f"{wanted}, which {path[-1]} can do")


def test_counters_are_those_of_a_good_link(host: Host, node: Node, rail: Rail) -> None:
    """The port's error counters stay within the bit error ratio of a good link."""
    _, port, rdma = _port(host, rail)
    nic = counters.ethtool(host, port.netdev)
    rdmas = counters.rdma(host).get(rdma, {})
    # port_rcv_data counts words of four bytes (IBTA, PortCounters).
    received = max(nic.get("rx_bytes_phy", 0), 4 * rdmas.get("port_rcv_data", 0))
    allowed = int(8 * received * _BIT_ERROR_RATIO) + 1
    for name, seen in {
        **_of(nic, counters.PHYSICAL),
        **_of(rdmas, counters.INFINIBAND_ERRORS),
    }.items():
        if seen > allowed:
            Setting(
                node,
                f"{port.netdev} {rdma}",
                name,
                "fabric_rails",
                where=f"ethtool -S {port.netdev}, counters of {rdma}",
                look=f"mlxlink -d {port.pci or rdma} -c, then clean or replace the cable",
            ).reject(seen, f"at most {allowed} for {received} bytes received")


def test_link_does_not_flap(host: Host, node: Node, rail: Rail) -> None:
    """The link has not flapped since boot."""
    here, port, _ = _port(host, rail)
    path = f"{devices.NET}/{port.netdev}/carrier_changes"
    uptime = read_files(host, "/proc/uptime").must("/proc/uptime").partition(".")[0]
    if not uptime.isdigit():
        raise CouldNotTell(f"/proc/uptime shows {uptime!r}")
    allowed = _CHANGES_AT_START + _CHANGES_A_DAY * int(uptime) // 86400
    seen = here.files.number(path)
    if seen > allowed:
        Setting(
            node,
            port.netdev,
            "changes of the carrier",
            "fabric_rails",
            where=path,
            look="dmesg -T | grep -i link, then replace the cable",
        ).reject(seen, f"at most {allowed} in {int(uptime) // 3600} hours")


def test_nothing_holds_packets_back(host: Host, node: Node, rail: Rail) -> None:
    """No queueing discipline on the rail drops, delays or shapes packets."""
    _, port, _ = _port(host, rail)
    kinds = ip.disciplines(host).get(port.netdev, ())
    shapers = [kind for kind in kinds if kind in _SHAPERS]
    Setting(
        node,
        port.netdev,
        "queueing discipline that shapes",
        "fabric_link_gbps",
        where=f"tc qdisc show dev {port.netdev}",
        fix=f"tc qdisc del dev {port.netdev} root",
    ).require(shapers, [])


def _port(host: Host, rail: Rail) -> tuple[Devices, Port, str]:
    here = devices.read(host)
    port = devices.port_of(here, rail)
    return here, port, port.require_rdma()


def _infiniband_gbps(text: str, path: str) -> float:
    """Return the rate in such as `400 Gb/sec (4X NDR)`."""
    found = re.match(r"(\d+(?:\.\d+)?) Gb/sec", text)
    if found is None:
        raise CouldNotTell(f"{path} shows {text!r}, not a rate")
    return float(found[1])


def _of(values: Mapping[str, int], names: tuple[str, ...]) -> dict[str, int]:
    return {name: values[name] for name in names if name in values}
