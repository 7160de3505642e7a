#!/usr/bin/env python3
"""Read what tests of paths must know of a node, as JSON. Needs Python 3.6, and changes nothing.

    python3 -c LOADER   with its source and then one JSON document on standard input

It has the RDMA device and the address of each rail. What perftest can do is asked of perftest; the
way from the CPU to a device is read from sysfs, and so are the redirects of its bridges.
"""

import ipaddress
import json
import os
import re
import shutil
import sys

from rdmaprov.node.devices import PCI, hops, names, pci_path, read
from rdmaprov.node.gpus import ask_driver, run_command

INFINIBAND = "/sys/class/infiniband"
# What a GPU of AMD is in sysfs: a display controller or an accelerator (pci.ids, classes).
AMD, DISPLAYS = "0x1002", ("0x0300", "0x0302", "0x0380", "0x1200")
MOST_LINES = 400
MOST_GPUS = 64
PCI_WORD = re.compile(r"([0-9A-Fa-f]{4,8}):([0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])$")
CONFIG_BYTES = 4096


def perftest(program):
    """Return whether a program is there, and its help."""
    if not shutil.which(program):
        return {"there": False, "help": []}
    lines = run_command([program, "--help"])[0].splitlines()[:MOST_LINES]
    return {"there": True, "help": [line[:200] for line in lines]}


def gid_of(device, address):
    """Return the place of a port's GID for RoCE v2, -1 if it has none: the address's own first."""
    base = (INFINIBAND, device, "ports/1")
    found = {}
    for name in names(*base, "gids"):
        if read(*base, "gid_attrs/types", name) != "RoCE v2":
            continue
        try:
            gid = ipaddress.IPv6Address(read(*base, "gids", name))
        except ValueError:
            continue
        own = str(gid.ipv4_mapped or gid) == address
        rank = 0 if own else 1 if gid.ipv4_mapped else 3 if gid.is_link_local else 2
        found.setdefault(rank, int(name))
    return found[min(found)] if found else -1


def numa_of(path):
    """Return the NUMA node of a device, -1 if the firmware does not say."""
    text = read("/", PCI, path[-1], "numa_node") if path else ""
    return int(text) if re.match(r"\d{1,4}$", text) else -1


def read_rail(wanted):
    """Return what perftest needs of a rail, and its way to the CPU."""
    device = wanted["device"]
    base = (INFINIBAND, device, "ports/1")
    path = pci_path("/", INFINIBAND, device, "device") if device else []
    layer = read(*base, "link_layer") if device else ""
    has_gid = layer == "Ethernet"
    return {
        "device": device,
        "layer": layer,
        "rate": read(*base, "rate") if device else "",
        "gid": gid_of(device, wanted["address"]) if has_gid else -1,
        "path": hops(path),
        "numa": numa_of(path),
    }


def gpus():
    """Return the GPUs: NVIDIA's by the number that its driver gives, AMD's in PCI order."""
    found = []
    text = ask_driver(["--query-gpu=index,pci.bus_id"])[0]
    for line in text.splitlines()[:MOST_GPUS]:
        number, _, address = (word.strip() for word in line.partition(","))
        match = PCI_WORD.match(address)
        if match and number.isdigit():
            address = "{:04x}:{}".format(int(match.group(1), 16), match.group(2).lower())
            found.append((int(number), address))
    if not found:
        own = [
            each
            for each in names("/", PCI)
            if read("/", PCI, each, "vendor") == AMD
            and read("/", PCI, each, "class").startswith(DISPLAYS)
        ]
        found = list(enumerate(own[:MOST_GPUS]))
    made = []
    for number, address in found:
        path = pci_path("/", PCI, address)
        made.append({"index": number, "path": hops(path), "numa": numa_of(path)})
    return made


def configs(devices):
    """Return the registers of the bridges above devices; only root sees more than 64 bytes."""
    found = {}
    for device in devices:
        for hop in device["path"][:-1]:
            try:
                with open(os.path.join("/", PCI, hop["address"], "config"), "rb") as file:
                    found[hop["address"]] = file.read(CONFIG_BYTES).hex()
            except OSError:
                pass
    return found


def main():
    """Answer the document on standard input."""
    request = json.loads(sys.stdin.read())
    rails = [read_rail(each) for each in request["rails"]]
    own = gpus()
    nodes = names("/sys/devices/system/node")
    numa = [int(name[4:]) for name in nodes if re.match(r"node\d{1,4}$", name)]
    answer = {
        "programs": {name: perftest(name) for name in request["programs"]},
        "peermem": os.path.isdir("/sys/module/nvidia_peermem"),
        "numa": sorted(each for each in numa if has_memory(each)),
        "rails": rails,
        "gpus": own,
        "configs": configs(own) if own else {},
    }
    print(json.dumps(answer))


def has_memory(number):
    """Return whether a NUMA node has memory, and processors: not that of a device."""
    base = "/sys/devices/system/node/node{}".format(number)
    found = re.search(r"MemTotal:\s*(\d+) kB", read(base, "meminfo"))
    return bool(found and int(found.group(1)) and read(base, "cpulist"))


main()
