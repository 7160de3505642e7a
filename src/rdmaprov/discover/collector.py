#!/usr/bin/env python3
"""Print what an RDMA node is made of, as JSON. Runs on the node; needs Python 3.6 and nothing else.

    python3 - [ROOT]   with its source, as rdmaprov.probe.script makes it, on standard input

ROOT is where /sys and /proc are, for tests.
"""

import json
import os
import platform
import re
import shutil
import subprocess
import sys

from rdmaprov.node.devices import (
    INFINIBAND,
    NET,
    PCI,
    addresses,
    below,
    data_device_of,
    names,
    netdev_on,
    pci_path,
    read,
    unfit,
)

# VGA, 3D and other display controllers, accelerators such as MI300X.
GPU_CLASSES = ("0x0300", "0x0302", "0x0380", "0x1200")
NVIDIA, AMD, MELLANOX = "0x10de", "0x1002", "0x15b3"
ENDLESS = "it does not end"
LLDP_S, MOST_LLDP_BYTES = 10, 256 * 1024  # of one program; eight ports are some 30 KiB


def number(text, default=None):
    """Return the first whole number in a text."""
    found = re.search(r"-?\d+", text)
    return int(found.group()) if found else default


def rail(root, device):
    """Return what is known of one RDMA device."""
    base = (INFINIBAND, device)
    netdev = netdev_on(root, device)
    chain = pci_path(root, *base, "device")
    net = (NET, netdev)
    speed = number(read(root, *net, "speed"), -1) if netdev else -1
    rate = re.match(r"([\d.]+) Gb/sec", read(root, *base, "ports/1/rate"))
    driver = os.path.realpath(os.path.join(root, *net, "device/driver")) if netdev else ""
    return {
        "device": device,
        "netdev": netdev,
        "ports": ports(root, netdev),
        "pci": chain[-1] if chain else "",
        "path": chain,
        "numa_node": number(read(root, *base, "device/numa_node"), -1),
        "link_layer": read(root, *base, "ports/1/link_layer"),
        "state": read(root, *base, "ports/1/state"),
        "gbps": speed / 1000 if speed > 0 else float(rate.group(1)) if rate else 0,
        "mtu_bytes": number(read(root, *net, "mtu"), 0) if netdev else 0,
        "model": ":".join(
            read(root, *base, "device", each).replace("0x", "") for each in ("vendor", "device")
        ).strip(":"),
        "card": read(root, *base, "sys_image_guid"),
        "unfit": unfit(root, device),
        "is_smi": bool(data_device_of(root, device)),
        "manages_nvswitch": manages_nvswitch(root, device),
        "driver": os.path.basename(driver) if os.path.isdir(driver) else "",
        "firmware": read(root, *base, "fw_ver"),
        "default_route": netdev in default_netdevs(root),
        "is_bond": bool(netdev) and os.path.exists(os.path.join(root, *net, "bonding")),
        "is_virtual": os.path.exists(os.path.join(root, *base, "device/physfn")),
        "addresses": addresses().get(netdev, []) if root == "/" else [],
        "partitions": partitions(root, netdev),
    }


def partitions(root, netdev):
    """Return the IPoIB interfaces of partitions on a port's network device."""
    index = read(root, NET, netdev, "ifindex") if netdev else ""
    found = []
    for name in names(root, NET) if index and read(root, NET, netdev, "type") == "32" else ():
        octets = read(root, NET, name, "broadcast").split(":")
        is_child = name != netdev and read(root, NET, name, "iflink") == index
        if is_child and len(octets) == 20:  # the key is in there: RFC 4391, section 4
            of = addresses().get(name, []) if root == "/" else []
            found.append({"netdev": name, "key": "0x" + "".join(octets[8:10]), "addresses": of})
    return found


def ports(root, netdev, most=4):
    """Return the ports that a network device stands on: those of a bond, else itself."""
    lower = below(root, netdev) if most else ()
    found = [port for each in lower for port in ports(root, each, most - 1)]
    return sorted(set(found)) or ([netdev] if netdev else [])


def manages_nvswitch(root, device):
    """Return whether an RDMA device leads to NVSwitches of the GPU baseboard, and to no fabric.

    Its Vital Product Data say SMDL=SW_MNG. [NVIDIA Fabric Manager user guide, HGX B200 and B300]
    """
    try:
        with open(os.path.join(root, INFINIBAND, device, "device/vpd"), "rb") as file:
            return b"SW_MNG" in file.read(32768)  # a capability's largest VPD [PCI 3.0, appendix I]
    except OSError:
        return False


def default_netdevs(root):
    """Return the network devices with a default route."""
    rows = [line.split() for line in read(root, "proc/net/route").splitlines()[1:]]
    return [row[0] for row in rows if len(row) > 1 and row[1] == "00000000"]


def gpus(root):
    """Return the GPUs in the order of their PCI addresses, which is that of nvidia-smi.

    Virtual functions of a GPU that is here are left out.
    """
    found = []
    for address in names(root, PCI):
        base = (PCI, address)
        if read(root, *base, "vendor") not in (NVIDIA, AMD):
            continue
        if not read(root, *base, "class").startswith(GPU_CLASSES):
            continue
        if os.path.exists(os.path.join(root, *base, "physfn")):
            continue
        node = number(read(root, *base, "numa_node"), -1)
        found.append({"pci": address, "path": pci_path(root, *base), "numa_node": node})
    return found


def bare_nics(root):
    """Return the NVIDIA NICs on PCI that have no RDMA device, with the driver of each."""
    driven = [pci_path(root, INFINIBAND, each, "device")[-1:] for each in names(root, INFINIBAND)]
    found = []
    for address in names(root, PCI):
        base = (root, PCI, address)
        if read(*base, "vendor") != MELLANOX or not read(*base, "class").startswith("0x02"):
            continue
        if [address] not in driven and not os.path.exists(os.path.join(*base, "physfn")):
            driver = os.path.realpath(os.path.join(*base, "driver"))
            driver = os.path.basename(driver) if os.path.isdir(driver) else ""
            found.append({"pci": address, "driver": driver})
    return found


def newest_python():
    """Return the minor version of the newest Python 3 that Ansible would find here."""
    there = [minor for minor in range(8, 20) if shutil.which("python3.{}".format(minor))]
    return max([*there, sys.version_info[1]])


def gpu_module(root):
    """Return the flavour of the nvidia kernel module, empty if it is not loaded."""
    text = read(root, "proc/driver/nvidia/version")
    if not text:
        return ""
    return "open" if "Open Kernel Module" in text else "proprietary"


def printed(*words):
    """Return what a program prints, as hexadecimal digits, and the last line of its errors.

    Both are empty if it is not installed. A switch's words may be any bytes.
    """
    paths = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    environment = dict(os.environ, LC_ALL="C", PATH=paths)
    try:
        process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
        )
    except OSError:
        return "", ""
    try:
        out, error = process.communicate(timeout=LLDP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return "", ENDLESS
    if process.returncode or len(out) > MOST_LLDP_BYTES:
        lines = error.decode("ascii", "replace").replace("\ufffd", "?").strip().splitlines()
        return "", "".join(c for c in (lines or ["failed"])[-1] if c.isprintable())[:200]
    return out.hex(), ""


def lldp(rails):
    """Return what LLDP daemons that run here know of the rails' neighbours; it waits for none."""
    known, error = printed("lldpctl", "-f", "json0")
    if known or (error and "unable to connect to socket" not in error):
        return {"lldpd": known, "lldpad": "", "error": error and "lldpctl: " + error}
    for port in sorted({port for each in rails for port in each["ports"]}):
        said, why = printed("lldptool", "-t", "-n", "-R", "-i", port)
        known += said
        if why == ENDLESS:  # it would not end for the next port either
            break
    return {"lldpd": "", "lldpad": known[: 2 * MOST_LLDP_BYTES], "error": ""}


def count_numa_nodes(root):
    """Return the number of NUMA nodes with memory that the kernel uses, unlike that of GPUs."""
    base = "sys/devices/system/node"
    text = read(root, base, "has_normal_memory") or read(root, base, "online")
    ranges = re.findall(r"(\d+)(?:-(\d+))?", text)
    return sum(int(last or first) - int(first) + 1 for first, last in ranges)


def collect(root):
    """Return all that the collector knows."""
    memory = re.search(r"MemTotal:\s+(\d+) kB", read(root, "proc/meminfo"))
    rails = [rail(root, device) for device in names(root, INFINIBAND)]
    return {
        "rails": rails,
        "bare_nics": bare_nics(root),
        "python_minor": newest_python(),
        "lldp": lldp(rails) if root == "/" else {"lldpd": "", "lldpad": "", "error": ""},
        "gpus": gpus(root),
        "gpu_module": gpu_module(root),
        "memory_bytes": int(memory.group(1)) * 1024 if memory else 0,
        "numa_nodes": count_numa_nodes(root),
        "kernel": read(root, "proc/sys/kernel/osrelease") or platform.release(),
    }


if __name__ == "__main__":
    print(json.dumps(collect(sys.argv[1] if len(sys.argv) > 1 else "/")))
