"""Which network, RDMA and PCI device a rail is, read from sysfs.

Names differ between drivers and after udev's renaming, so they are looked up and never assumed.
ROOT is where /sys and /proc are; it is `/` except in tests.
"""

import json
import os
import re
import subprocess

NET = "sys/class/net"
INFINIBAND = "sys/class/infiniband"
VERBS = "sys/class/infiniband_verbs"
PCI = "sys/bus/pci/devices"
LINK = ("current_link_speed", "current_link_width", "max_link_speed", "max_link_width")
ADDRESS = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
# Linux Documentation/networking/switchdev.rst: pfNvfM and pfNsfM, with cN before for another host.
REPRESENTOR = re.compile(r"(c\d+)?pf\d+([vs]f\d+|hpf)?")
SMI = "{} is the SMI device of {}, which carries management alone"
PORTS = (
    "{} has {} ports (/sys/class/infiniband/{}/ports), with data on others than port 1: a "
    "multi-port or multi-plane device, which is not supported"
)


def read(*parts):
    """Return a file's text without its newline, empty if it cannot be read."""
    try:
        with open(os.path.join(*parts)) as file:
            return file.read().strip()
    except (OSError, UnicodeDecodeError, ValueError):
        return ""


def names(*parts):
    """Return a directory's names, sorted; none if there is no such directory."""
    try:
        return sorted(os.listdir(os.path.join(*parts)))
    except OSError:
        return []


def pci_path(root, *parts):
    """Return the chain of PCI addresses from the host bridge to a device, empty if it has none."""
    return ADDRESS.findall(os.path.realpath(os.path.join(root, *parts)))


def hops(path):
    """Return the functions on the way to a device, with their links as sysfs has them."""
    return [
        {"address": each, "link": [read("/", PCI, each, name)[:32] for name in LINK]}
        for each in path
    ]


def below(root, netdev):
    """Return the network devices that a bond or a VLAN stands on, none for a port."""
    return [name[len("lower_") :] for name in names(root, NET, netdev) if name[:6] == "lower_"]


def is_representor(root, netdev):
    """Return whether a network device is another function's port, or another host's."""
    # A driver that names no ports has no representors: reading the name is EOPNOTSUPP.
    return bool(REPRESENTOR.fullmatch(read(root, NET, netdev, "phys_port_name")))


def is_port(root, netdev):
    """Return whether a network device is a port: no representor, no partition of IPoIB, no VLAN."""
    if is_representor(root, netdev):
        return False
    lower = read(root, NET, netdev, "iflink")
    return not lower or lower == read(root, NET, netdev, "ifindex")


def netdev_at(root, pci):
    """Return the network device of a PCI function, empty if it has none or several."""
    found = [name for name in names(root, PCI, pci, "net") if is_port(root, name)]
    return found[0] if len(found) == 1 else ""


def rdma_at(root, pci):
    """Return the RDMA device of a PCI function that has no network device; empty if none."""
    for device in data_devices(root):
        if pci_path(root, INFINIBAND, device, "device")[-1:] == [pci]:
            return device
    return ""


def data_devices(root):
    """Return the RDMA devices, without those that carry management alone."""
    return [each for each in names(root, INFINIBAND) if not data_device_of(root, each)]


def data_device_of(root, device):
    """Return the device that an SMI device belongs to; empty for all other devices."""
    # It has a port for each plane, and no uverbs: Linux core/uverbs_main.c, ib_uverbs_add_one.
    place = pci_path(root, INFINIBAND, device, "device")
    verbs = [read(root, VERBS, each, "ibdev") for each in names(root, VERBS)]
    own = len(names(root, INFINIBAND, device, "ports"))
    for other in names(root, INFINIBAND) if place and device not in verbs else ():
        fewer = len(names(root, INFINIBAND, other, "ports")) < own
        fits = other in verbs or fewer or ("smi" in device and "smi" not in other)
        if other != device and fits and pci_path(root, INFINIBAND, other, "device") == place:
            return other
    return ""


def unfit(root, device):
    """Return why an RDMA device cannot be judged by its port 1; empty if it can."""
    of = data_device_of(root, device)
    if of:
        return SMI.format(device, of)
    found = names(root, INFINIBAND, device, "ports")
    if len(found) > 1 and any(has_data(root, device, each) for each in found):
        return PORTS.format(device, len(found), device)
    return ""


def has_data(root, device, port):
    """Return whether a device with several ports may have data on others than port 1, by one."""
    # In switchdev mode, further ports are representors, or nobody's, and down.
    base = (root, INFINIBAND, device, "ports", port)
    netdev = read(*base, "gid_attrs/ndevs/0")
    if read(*base, "link_layer") == "InfiniBand":
        return port != "1"
    if port == "1":
        return not netdev
    return not is_representor(root, netdev) if netdev else read(*base, "state")[:2] == "4:"


def netdev_on(root, rdma):
    """Return the network device of an RDMA device, empty if it has none.

    One that the RDMA device names counts before one on the same function: Soft-RoCE has no
    function, and a bond's RDMA device is on the function of its first port.
    """
    base = (root, INFINIBAND, rdma)
    named = read(*base, "parent") or read(*base, "ports/1/gid_attrs/ndevs/0")
    found = [name for name in names(*base, "device/net") if is_port(root, name)]
    return named or (found[0] if found else "")


def rdma_on(root, netdev):
    """Return the RDMA device on a network device, empty if there is none.

    That of a VLAN is the one of the device below it, and so is that of a bond whose RDMA device has
    no GID yet, unless its ports have several.
    """
    devices = data_devices(root)
    for device in devices:
        base = (root, INFINIBAND, device)
        if netdev in (read(*base, "parent"), read(*base, "ports/1/gid_attrs/ndevs/0")):
            return device
    for device in devices:
        if netdev in names(root, INFINIBAND, device, "device/net"):
            return device
    if not re.search(r"(?m)^DEVTYPE=(bond|vlan)$", read(root, NET, netdev, "uevent")):
        return ""
    found = {rdma_on(root, name) for name in below(root, netdev)} - {""}
    return found.pop() if len(found) == 1 else ""


def rail_devices(root, described):
    """Return the network and the RDMA device of a rail, each empty if there is none.

    DESCRIBED is how the site names it: netdev, pci, or rdma where both are empty.
    """
    netdev, pci = described["netdev"], described["pci"].lower()
    if netdev or pci:
        netdev = netdev or netdev_at(root, pci)
        rdma = rdma_on(root, netdev) if netdev else rdma_at(root, pci)
        return partition_on(netdev, described), rdma
    rdma = described.get("rdma", "")
    if rdma not in names(root, INFINIBAND):
        return "", ""
    return partition_on(netdev_on(root, rdma), described), rdma


def partition_on(netdev, described):
    """Return the IPoIB interface of a rail's partition, the port's own where it names none."""
    key = described.get("ipoib_pkey")
    return "{}.{:04x}".format(netdev, int(key, 16)) if key and netdev else netdev


def addresses():
    """Return the addresses of each network device with prefix lengths, link-local ones left out."""
    command = ["ip", "-j", "address", "show"]
    try:
        entries = json.loads(subprocess.check_output(command, stderr=subprocess.DEVNULL))
        return {
            entry["ifname"]: [
                "{}/{}".format(each["local"], each["prefixlen"])
                for each in entry.get("addr_info", [])
                if each.get("scope") == "global"
            ]
            for entry in entries
        }
    except (OSError, ValueError, KeyError, TypeError, subprocess.CalledProcessError):
        return {}
