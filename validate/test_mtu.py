"""The MTU of the rails, and the RDMA MTU that follows from it."""

import re
import shlex

import pytest
from testinfra.host import Host

from rdmaprov.facts import CouldNotTell, devices, link_files, lower_ports, rails
from rdmaprov.facts.text import output
from rdmaprov.inventory import Node, Rail
from rdmaprov.validate.verdict import AFTER_REBOOT, Setting, needs_ipoib

pytestmark = pytest.mark.state


def test_mtu_running(host: Host, node: Node, rail: Rail) -> None:
    """The rail's network device has the fabric's MTU."""
    needs_ipoib(node)
    here = devices.read(host)
    netdev = rails.port_of(here, rail).require_netdev()
    path = f"{devices.NET}/{netdev}/mtu"
    seen, wanted = here.files.number(path), node.get("fabric_mtu_bytes")
    # The kernel cuts an MTU to what the partition's multicast group has, without an error: Linux
    # drivers/infiniband/ulp/ipoib/ipoib_main.c, ipoib_change_mtu.
    is_cut = here.files.value(f"{devices.NET}/{netdev}/mode") == "datagram" and seen < wanted
    look = "saquery -g, then set the partition's MTU in the subnet manager" if is_cut else ""
    Setting(node, netdev, "MTU", "fabric_mtu_bytes", where=path, look=look).require(seen, wanted)


def test_mtu_after_reboot(host: Host, node: Node, rail: Rail) -> None:
    """The next boot sets the fabric's MTU on the rail's network device.

    A device below a VLAN gets no smaller one: the VLAN would then have none either.
    """
    needs_ipoib(node)
    here, files = devices.read(host), link_files.read(host)
    netdev = rails.port_of(here, rail).require_netdev()
    wanted = node.get("fabric_mtu_bytes")
    for name in (*lower_ports.vlan_parents(here, netdev), netdev):
        boot = link_files.boot_settings(files, name)
        setting = Setting(node, name, "MTU", "fabric_mtu_bytes", boot.where, AFTER_REBOOT)
        if name == netdev:
            setting.require(boot.mtu_bytes, wanted)
        elif (boot.mtu_bytes or 0) < wanted:
            setting.reject(boot.mtu_bytes, f"at least {wanted}, as {netdev} is a VLAN on it")
        link_files.require_name(files, name)


def test_rdma_mtu_running(host: Host, node: Node, rail: Rail) -> None:
    """The active RDMA MTU is the site's; only ibv_devinfo shows it."""
    rdma = rails.port(host, rail).require_rdma()
    command = f"ibv_devinfo -d {shlex.quote(rdma)}"
    found = re.search(r"active_mtu:\s+(\d+)", output(host, command))
    if found is None:
        raise CouldNotTell(f"{rdma}: {command} shows no active_mtu")
    Setting(node, rdma, "RDMA MTU", "mtu_rdma_bytes", where=command).require(
        int(found[1]), node.get("mtu_rdma_bytes")
    )
