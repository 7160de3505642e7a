"""What the subnet manager gave the rails' ports: LIDs, lanes, subnet, partition keys."""

import re

import pytest
from testinfra.host import Host

from rdmaprov.facts import CouldNotTell, boot_partition, devices, link_files, rails, subnet_port
from rdmaprov.facts.devices import INFINIBAND, NET
from rdmaprov.facts.subnet_port import UNICAST, SubnetPort
from rdmaprov.facts.text import read_files
from rdmaprov.inventory import Node, Rail, partitions
from rdmaprov.inventory.partitions import shown_key
from rdmaprov.validate.verdict import (
    AFTER_REBOOT,
    Setting,
    needs_infiniband,
    needs_ipoib,
    not_applicable,
)

pytestmark = pytest.mark.links

# Lanes and speed of each generation, as the kernel writes them behind a port's rate. Linux
# drivers/infiniband/core/sysfs.c, rate_show; HDR100 and NDR200 are two lanes of HDR and of NDR.
_LANES = {"HDR100": "2X HDR", "NDR200": "2X NDR"}

# RFC 4391, section 9.1.1
_IPOIB_ADDRESS_BYTES = 20


def test_port_has_a_lid(host: Host, node: Node, rail: Rail) -> None:
    """The subnet manager gave the rail's port an address, a LID."""
    rdma, port = _port(host, node, rail)
    if port.lid not in UNICAST:
        _setting(node, rdma, "LID", "fabric_rails", "lid").reject(port.lid, "1 to 49151")


def test_port_knows_its_subnet_manager(host: Host, node: Node, rail: Rail) -> None:
    """The rail's port knows the LID of its subnet manager."""
    rdma, port = _port(host, node, rail)
    if port.sm_lid not in UNICAST:
        _setting(node, rdma, "SM LID", "fabric_rails", "sm_lid").reject(port.sm_lid, "1 to 49151")


def test_lanes_and_speed(host: Host, node: Node, rail: Rail) -> None:
    """The link has the lanes and the speed of the generation that the site names."""
    needs_infiniband(node, "generations of InfiniBand")
    if "fabric_ib_generation" not in node.written or rail.link_gbps:
        not_applicable("the site names no fabric_ib_generation for this rail; test_rate judges it")
    here = devices.read(host)
    rdma = rails.port_of(here, rail).require_rdma()
    text = here.port(rdma, "rate")
    found = re.fullmatch(r"[\d.]+ Gb/sec \((\d+X(?: \w+)?)\)", text)
    if found is None:
        raise CouldNotTell(f"{INFINIBAND}/{rdma}/ports/1/rate shows {text!r}, not lanes and speed")
    generation = str(node.get("fabric_ib_generation"))
    # The kernel writes single data rate without a name: "10 Gb/sec (4X)" or, since 5.6, "4X SDR".
    seen = found[1] if " " in found[1] else f"{found[1]} SDR"
    _setting(node, rdma, "link", "fabric_ib_generation", "rate").require(
        seen, _LANES.get(generation, f"4X {generation}")
    )


def test_subnet_prefix(host: Host, node: Node, rail: Rail) -> None:
    """The rail's port is in the subnet that the site says."""
    needs_infiniband(node, "subnet prefix")
    wanted = partitions.subnet_prefix(rail.subnet_prefix)
    if wanted is None:
        not_applicable(
            "the site sets no subnet_prefix on this rail; test_uniformity.py compares it"
        )
    rdma, port = _port(host, node, rail)
    _setting(node, rdma, "subnet prefix", "fabric_rails", "gids/0").require(
        f"0x{port.prefix:016x}", f"0x{wanted:016x}"
    )


def test_partition_keys(host: Host, node: Node, rail: Rail) -> None:
    """The subnet manager gave the rail's port each of the site's partition keys.

    With its membership: a limited member reaches full ones alone.
    """
    needs_infiniband(node, "partition keys")
    wanted = partitions.partition_keys(node, rail)
    if not wanted:
        not_applicable("fabric_partition_keys: [], so any are accepted")
    rdma, port = _port(host, node, rail)
    has = set(port.pkeys.values())
    missing = [shown_key(key) for key in wanted if key not in has]
    if missing:
        variable = "fabric_partition_keys" if rail.pkeys is None else "fabric_rails"
        _setting(node, rdma, "partition keys are", variable, "pkeys").reject(
            [shown_key(key) for key in sorted(has)], f"{', '.join(missing)} among them"
        )


def test_ipoib_partition(host: Host, node: Node, rail: Rail) -> None:
    """The rail's IPoIB interface is in the partition that the site says."""
    wanted = _wanted_partition(node, rail)
    netdev = rails.port(host, rail).require_netdev()
    # Not its file pkey, which an interface made by netlink lacks: Linux
    # drivers/infiniband/ulp/ipoib/ipoib_vlan.c, __ipoib_vlan_add. RFC 4391, section 4, has the key
    # in the broadcast address.
    path = f"{NET}/{netdev}/broadcast"
    octets = read_files(host, f"{NET}/*/broadcast").must(path).split(":")
    if len(octets) != _IPOIB_ADDRESS_BYTES:
        raise CouldNotTell(f"{path} shows {':'.join(octets)!r}, not 20 bytes of IPoIB's")
    Setting(node, netdev, "IPoIB partition key", "fabric_rails", path).require(
        "0x" + "".join(octets[8:10]), wanted
    )


def test_ipoib_partition_after_reboot(host: Host, node: Node, rail: Rail) -> None:
    """The next boot makes the rail's IPoIB interface in the partition that the site says."""
    wanted = _wanted_partition(node, rail)
    port = rails.port(host, rail)
    netdev = port.require_netdev()
    boot = boot_partition.read(host, netdev, port.parent)
    seen = None if boot.key is None else shown_key(boot.key)
    Setting(node, netdev, "IPoIB partition key", "fabric_rails", boot.where, AFTER_REBOOT).require(
        seen, wanted
    )


def test_ipoib_mode_running(host: Host, node: Node, rail: Rail) -> None:
    """The rail's IPoIB network device is in the site's mode."""
    wanted = _wanted_mode(node)
    here = devices.read(host)
    netdev = rails.port_of(here, rail).require_netdev()
    path = f"{NET}/{netdev}/mode"
    # A kernel without connected mode has no such file.
    seen = here.files.value(path) or "datagram"
    Setting(node, netdev, "IPoIB mode", "fabric_ipoib_mode", path).require(seen, wanted)


def test_ipoib_mode_after_reboot(host: Host, node: Node, rail: Rail) -> None:
    """The next boot sets the site's mode on the rail's IPoIB network device."""
    wanted = _wanted_mode(node)
    netdev = rails.port(host, rail).require_netdev()
    boot = link_files.boot_settings(link_files.read(host), netdev)
    Setting(node, netdev, "IPoIB mode", "fabric_ipoib_mode", boot.where, AFTER_REBOOT).require(
        boot.ipoib_mode or None, wanted
    )


def _wanted_partition(node: Node, rail: Rail) -> str:
    needs_infiniband(node, "IPoIB")
    needs_ipoib(node)
    wanted = partitions.partition_key(rail.ipoib_pkey)
    if wanted is None:
        not_applicable("the site sets no ipoib_pkey on this rail")
    return shown_key(wanted)


def _wanted_mode(node: Node) -> str:
    needs_infiniband(node, "IPoIB")
    needs_ipoib(node)
    if node.get("fabric_ipoib_mode") == "keep":
        not_applicable("fabric_ipoib_mode: keep")
    return str(node.get("fabric_ipoib_mode"))


def _port(host: Host, node: Node, rail: Rail) -> tuple[str, SubnetPort]:
    needs_infiniband(node, "subnet manager")
    rdma = rails.port(host, rail).require_rdma()
    return rdma, subnet_port.read(host, rdma)


def _setting(node: Node, rdma: str, name: str, variable: str, file: str) -> Setting:
    look = {
        "pkeys": "smpquery pkeys -C {0} $(cat /sys/class/infiniband/{0}/ports/1/lid), then correct "
        "partitions.conf of the subnet manager",
        "rate": "mlxlink -d {0}, then check cable and switch port",
    }.get(file, "sminfo -C {0}, then check the subnet manager and the cable")
    where = f"{INFINIBAND}/{rdma}/ports/1/{file}"
    return Setting(node, rdma, name, variable, where=where, look=look.format(rdma))
