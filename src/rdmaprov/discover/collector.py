#!/usr/bin/env python3
"""Print what an RDMA node is made of, as JSON. Runs on the node; needs Python 3.6 and nothing else.

    collector.py [ROOT]

ROOT is where /sys and /proc are, for tests.
"""

import json
import os
import platform
import re
import subprocess
import sys

GPU_CLASSES = ("0x0300", "0x0302")  # VGA, 3D controller
NVIDIA, AMD = "0x10de", "0x1002"


def read(*parts):
    """Return a file's text without its newline, empty if it cannot be read."""
    try:
        with open(os.path.join(*parts)) as file:
            return file.read().strip()
    except (OSError, UnicodeDecodeError, ValueError):
        return ""


def listed(*parts):
    """Return a directory's names, sorted; none if there is no such directory."""
    try:
        return sorted(os.listdir(os.path.join(*parts)))
    except OSError:
        return []


def number(text, default=None):
    """Return the first whole number in a text."""
    found = re.search(r"-?\d+", text)
    return int(found.group()) if found else default


def pci_path(root, *parts):
    """Return the chain of PCI addresses from the host bridge to a device, empty if it has none."""
    path = os.path.realpath(os.path.join(root, *parts))
    return re.findall(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", path)


def netdev_of(root, device):
    """Return the network device of an RDMA device.

    Soft-RoCE has no `device` link: its network device is `parent`, or that of its first GID.
    """
    base = ("sys/class/infiniband", device)
    names = listed(root, *base, "device/net")
    if names:
        return names[0]
    name = read(root, *base, "parent")
    return name or read(root, *base, "ports/1/gid_attrs/ndevs/0")


def rail(root, device):
    """Return what is known of one RDMA device."""
    base = ("sys/class/infiniband", device)
    netdev = netdev_of(root, device)
    chain = pci_path(root, *base, "device")
    net = ("sys/class/net", netdev)
    speed = number(read(root, *net, "speed"), -1) if netdev else -1
    rate = re.match(r"([\d.]+) Gb/sec", read(root, *base, "ports/1/rate"))
    driver = os.path.realpath(os.path.join(root, *net, "device/driver")) if netdev else ""
    return {
        "device": device,
        "netdev": netdev,
        "pci": chain[-1] if chain else "",
        "path": chain,
        "numa_node": number(read(root, *base, "device/numa_node"), -1),
        "link_layer": read(root, *base, "ports/1/link_layer"),
        "state": read(root, *base, "ports/1/state"),
        "gbps": speed / 1000 if speed > 0 else float(rate.group(1)) if rate else 0,
        "mtu_bytes": number(read(root, *net, "mtu"), 0) if netdev else 0,
        "driver": os.path.basename(driver) if os.path.isdir(driver) else "",
        "firmware": read(root, *base, "fw_ver"),
        "default_route": netdev in default_netdevs(root),
        "addresses": addresses(netdev) if root == "/" and netdev else [],
    }


def default_netdevs(root):
    """Return the network devices with a default route."""
    rows = [line.split() for line in read(root, "proc/net/route").splitlines()[1:]]
    return [row[0] for row in rows if len(row) > 1 and row[1] == "00000000"]


def addresses(netdev):
    """Return a network device's addresses with their prefix lengths, without link-local ones."""
    try:
        command = ["ip", "-j", "address", "show", "dev", netdev]
        found = json.loads(subprocess.check_output(command))
        return [
            "{}/{}".format(entry["local"], entry["prefixlen"])
            for entry in found[0]["addr_info"]
            if entry.get("scope") == "global"
        ]
    except (OSError, ValueError, KeyError, IndexError, subprocess.CalledProcessError):
        return []


def gpus(root):
    """Return the GPUs in the order of their PCI addresses, which is that of nvidia-smi."""
    found = []
    for address in listed(root, "sys/bus/pci/devices"):
        base = ("sys/bus/pci/devices", address)
        if read(root, *base, "vendor") not in (NVIDIA, AMD):
            continue
        if not read(root, *base, "class").startswith(GPU_CLASSES):
            continue
        node = number(read(root, *base, "numa_node"), -1)
        found.append({"pci": address, "path": pci_path(root, *base), "numa_node": node})
    return found


def gpu_module(root):
    """Return the flavour of the nvidia kernel module, empty if it is not loaded."""
    text = read(root, "proc/driver/nvidia/version")
    if not text:
        return ""
    return "open" if "Open Kernel Module" in text else "proprietary"


def collect(root):
    """Return all that the collector knows."""
    memory = re.search(r"MemTotal:\s+(\d+) kB", read(root, "proc/meminfo"))
    nodes = [n for n in listed(root, "sys/devices/system/node") if re.match(r"node\d+$", n)]
    return {
        "rails": [rail(root, device) for device in listed(root, "sys/class/infiniband")],
        "gpus": gpus(root),
        "gpu_module": gpu_module(root),
        "memory_bytes": int(memory.group(1)) * 1024 if memory else 0,
        "numa_nodes": len(nodes),
        "kernel": read(root, "proc/sys/kernel/osrelease") or platform.release(),
    }


if __name__ == "__main__":
    print(json.dumps(collect(sys.argv[1] if len(sys.argv) > 1 else "/")))
