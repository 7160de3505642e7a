#!/usr/bin/env python3
"""Read what an acceptance must know of a node, as JSON. Needs Python 3.6, and changes nothing.

    python3 -c LOADER   with its source and then one JSON document on standard input

`preflight` reads versions, GPUs, rails, counters and which hardware it is; `counters` rails and
counters again, and what computes on the GPUs; `reach` connects to addresses, each by a device. A
refused connection is an answer too: nothing listens. Where none comes, a ping and the neighbor
table tell more. `log` reads what the kernel has logged since a time, of the lines that matter.
"""

import errno
import json
import os
import re
import select
import socket
import subprocess
import sys
import time

from rdmaprov.node.devices import addresses, below, hops, names, pci_path, rail_devices, read, unfit
from rdmaprov.node.gpus import read_gpus, read_processes, run_command
from rdmaprov.node.identity import read_identity
from rdmaprov.node.kernel_lines import kernel_lines
from rdmaprov.node.serials import ask_modules, read_card, read_modules

SO_BINDTODEVICE = 25
PORT = 9  # discard: nothing listens
# torch/version.py has the CUDA that torch was built for (tools/generate_torch_version.py there).
# libcuda says its own, also one for older drivers (cuda-compat); it opens no GPU for that.
VERSIONS = """
import ctypes, importlib.metadata as m, json, re, sys
found = {"python": sys.version.split()[0]}
for each in m.distributions():
    name = (each.metadata["Name"] or "").lower()
    if name == "torch" or name.startswith("nvidia-nccl-cu"):
        found["torch" if name == "torch" else "nccl"] = each.version
    if name == "torch":
        place = each.locate_file("torch/version.py")
        text = place.read_text(errors="replace") if place.is_file() else ""
        cuda = re.search(r"^cuda\\b[^=\\n]*= *'([0-9]{1,3}[.][0-9]{1,3})", text, re.M)
        found.update({"cuda": cuda.group(1)} if cuda else {})
number = ctypes.c_int()
try:
    if ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(number)) == 0 < number.value:
        found["libcuda"] = "%d.%d" % (number.value // 1000, number.value % 1000 // 10)
except (OSError, AttributeError):
    pass
print(json.dumps(found))
"""


def printed_by(argv, limit_s=20):
    """Return what a command printed, None if it failed; why is in the second place."""
    text, code, why = run_command(argv, limit_s)
    return (None, why or "exit status {}".format(code)) if code else (text, "")


def torch_versions(python):
    """Return the versions that an interpreter has, without importing torch: that takes long."""
    text, why = printed_by([python, "-c", VERSIONS], 60)
    return {"error": why} if text is None else json.loads(text.strip().splitlines()[-1])


def read_slots(identity):
    """Return the last links of rails and GPUs, none of guests, and whether there is Data Direct."""
    if " hypervisor" in read("/proc/cpuinfo"):
        return {"rails": [[] for _ in identity["rails"]], "gpus": [], "direct": False}
    rails = []
    for each in identity["rails"]:
        lower = below("/", each["netdev"]) if each["netdev"] else []
        ways = [pci_path("/sys/class/net", port, "device") for port in lower]
        ways = ways or [pci_path("/sys/bus/pci/devices", each["pci"])]
        one = len({tuple(way[:-1]) for way in ways}) == 1
        rails.append(hops(ways[0][-2:]) if one else [])
    gpus = [pci_path("/sys/bus/pci/devices", each["pci"])[-2:] for each in identity["gpus"]]
    # 15b3:2100 in Linux drivers/infiniband/hw/mlx5/data_direct.c
    devices = [
        read("/sys/bus/pci/devices", each, "modalias") for each in names("/sys/bus/pci/devices")
    ]
    direct = any(each.startswith("pci:v000015B3d00002100") for each in devices)
    return {"rails": rails, "gpus": [hops(way) for way in gpus], "direct": direct}


def read_lldp(ports):
    """Return what lldpd knows of ports, as `lldpctl -f json0` has it; empty if it does not run."""
    try:
        tops = json.loads(printed_by(["lldpctl", "-f", "json0"])[0])["lldp"]
        own = [each for top in tops for each in top["interface"] if each["name"] in ports]
        return json.dumps({"lldp": [{"interface": own}]})[:65536]
    except (ValueError, KeyError, TypeError):
        return ""


def neighbor_overflows():
    """Return how often neighbor tables were full: a row is of a processor, in hexadecimal."""
    found = {}
    for table in ("arp_cache", "ndisc_cache"):
        rows = [line.split() for line in read("/proc/net/stat", table).splitlines()]
        if rows and "table_fulls" in rows[0]:
            column = rows[0].index("table_fulls")
            found[table] = sum(int(row[column], 16) for row in rows[1:])
    return found


def other_runs():
    """Return the acceptances that run here, by the mark of their programs."""
    found = {}
    for pid in names("/proc"):
        if pid.isdigit() and int(pid) != os.getpid():
            try:
                with open("/proc/{}/cmdline".format(pid), "rb") as file:
                    words = file.read(1 << 16).split(b"\0")
            except OSError:
                continue  # it has ended
            for word in words:
                if re.match(rb"rdmaprov-accept-[0-9a-f]{12}-\d{1,7}$", word):
                    found.setdefault(word.decode(), "process {}".format(pid))
    return sorted(found.values())[:16]


def read_rail(described, addresses_of):
    """Return a rail of the site as it is."""
    netdev, device = rail_devices("/", described)
    state = read("/sys/class/infiniband", device, "ports/1/state") if device else ""
    return {
        "netdev": netdev,
        "there": bool(netdev) and os.path.isdir("/sys/class/net/" + netdev),
        "carrier": read("/sys/class/net", netdev, "carrier") == "1" if netdev else False,
        "addresses": addresses_of.get(netdev, []),
        "mac": read("/sys/class/net", netdev, "address") if netdev else "",
        "rdma": device,
        "state": state.partition(":")[2].strip(),
        "unfit": unfit("/", device) if device else "",
        "counters": read_counters(netdev, device),
    }


def own_addresses():
    """Return the addresses of each network device, without prefix lengths."""
    return {
        netdev: [each.partition("/")[0] for each in found] for netdev, found in addresses().items()
    }


def read_counters(netdev, device):
    """Return every counter of a rail that has a number, by where it was read."""
    found = {}
    places = {"netdev": "/sys/class/net/{}/statistics".format(netdev)}
    if device:
        port = "/sys/class/infiniband/{}/ports/1/".format(device)
        places.update({"port": port + "counters", "hw": port + "hw_counters"})
    for kind, place in places.items():
        for name in names(place):
            text = read(place, name)
            if re.match(r"\d+$", text):
                found[kind + "." + name] = int(text)
    for line in (printed_by(["ethtool", "-S", netdev])[0] or "").splitlines() if netdev else []:
        name, _, value = line.strip().partition(": ")
        if re.match(r"\d+$", value):
            found["ethtool." + name] = int(value)
    return found


def read_others(rails):
    """Return the bytes that passed the network devices that are no rail."""
    own = {each["netdev"] for each in rails}
    found = {}
    for netdev in names("/sys/class/net"):
        text = read("/sys/class/net", netdev, "statistics/tx_bytes")
        if netdev not in own and netdev != "lo" and text:
            found[netdev] = int(text)
    return found


def nccl_setting(name, path="/etc/nccl.conf"):
    """Return what a node's nccl.conf sets; empty if it does not."""
    lines = (line.partition("=") for line in (read(path) or "").splitlines())
    found = [value.strip() for key, _, value in lines if key.strip() == name]
    return found[-1][:256] if found else ""


def free_port():
    """Return a TCP port that is free now."""
    with socket.socket() as each:
        each.bind(("", 0))
        return each.getsockname()[1]


def open_connection(target):
    """Return a connection that is being made, by a device."""
    family = socket.AF_INET6 if ":" in target["address"] else socket.AF_INET
    each = socket.socket(family)
    each.setblocking(False)
    if target["device"]:
        each.setsockopt(socket.SOL_SOCKET, SO_BINDTODEVICE, target["device"].encode())
    code = each.connect_ex((target["address"], target.get("port") or PORT))
    return each, code


def try_targets(targets, limit_s):
    """Return for each target why it does not answer, empty if it does; and our own addresses."""
    waiting, found = {}, ["no answer in {:g} s".format(limit_s)] * len(targets)
    own = [""] * len(targets)
    poll = select.poll()
    for number, target in enumerate(targets):
        try:
            each, code = open_connection(target)
        except OSError as error:
            found[number] = error.strerror
            continue
        own[number] = each.getsockname()[0]
        if code == errno.EINPROGRESS:
            waiting[each.fileno()] = (number, each)
            poll.register(each, select.POLLOUT)
        else:
            found[number] = error_text(code)
    end = time.monotonic() + limit_s
    while waiting and time.monotonic() < end:
        for file, _ in poll.poll(1000 * max(0, end - time.monotonic())):
            number, each = waiting.pop(file)
            poll.unregister(file)
            found[number] = error_text(each.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
            each.close()
    return found, own


def ping_targets(targets, wanted, limit_s):
    """Return which of the wanted targets answer a ping; none if there is no ping."""
    running = {}
    for number in wanted:
        device, address = targets[number]["device"], targets[number]["address"]
        words = [
            "ping",
            "-n",
            "-c",
            "2",
            "-i",
            "0.2",
            "-W",
            "2",
            *(["-I", device] if device else []),
        ]
        try:
            running[number] = subprocess.Popen(
                [*words, address],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        except OSError:
            break
    end, found = time.monotonic() + limit_s, set()
    for number, each in running.items():
        try:
            if each.wait(max(0.1, end - time.monotonic())) == 0:
                found.add(number)
        except subprocess.TimeoutExpired:
            each.kill()
            each.wait()
    return found


def read_neighbors():
    """Return state and link-layer address of each neighbor, by device and address."""
    found = {}
    for line in (printed_by(["ip", "neigh", "show"])[0] or "").splitlines():
        words = line.split()
        if len(words) > 3 and words[1] == "dev":
            mac = words[words.index("lladdr") + 1] if "lladdr" in words[:-1] else ""
            found[words[2], words[0]] = {"state": words[-1], "mac": mac}
    return found


def try_ways(targets, limit_s):
    """Return what is known of each target: by TCP, by ping, and in the neighbor table."""
    found, own = try_targets(targets, limit_s)
    pinged = ping_targets(targets, [n for n, why in enumerate(found) if why], limit_s)
    known = read_neighbors()
    nothing = {"state": "", "mac": ""}
    return {
        "reach": found,
        "own": own,
        "pings": [number in pinged for number in range(len(targets))],
        "neighbors": [known.get((t["device"], t["address"]), nothing) for t in targets],
    }


def error_text(code):
    """Return what an error means, nothing for one that only a peer can give."""
    return "" if code in (0, errno.ECONNREFUSED) else os.strerror(code)


def main():
    """Answer the document on standard input."""
    request = json.loads(sys.stdin.read())
    if request["verb"] == "reach":
        print(json.dumps(try_ways(request["targets"], request["limit_s"])))
        return
    if request["verb"] == "log":
        since = time.time() - request["since"]
        print(json.dumps(kernel_lines(since, request["matters"], request["most"])))
        return
    known = own_addresses()
    rails = [read_rail(each, known) for each in request["rails"]]
    found = {"time": time.time(), "rails": rails, "others": read_others(rails)}
    found["overflows"] = neighbor_overflows()
    if request["verb"] == "preflight":
        asked = ask_modules(rails)  # they take as long as the driver of GPUs
        gpus = read_gpus()
        uuids, found["serials"] = gpus.pop("uuids"), gpus.pop("serials")
        found.update(
            torch=torch_versions(request["python"]),
            gpus=gpus,
            port=free_port(),
            addresses=known,
            hostname=socket.gethostname(),
            runs=other_runs(),
            boot_id=read("/proc/sys/kernel/random/boot_id"),
            socket_ifname=nccl_setting("NCCL_SOCKET_IFNAME"),
            ib_timeout=nccl_setting("NCCL_IB_TIMEOUT"),
            identity=read_identity(request["rails"], uuids=uuids),
        )
        found["slots"] = read_slots(found["identity"])
        modules = read_modules(*asked)
        cards = [read_card(each["pci"]) for each in found["identity"]["rails"]]
        found["labels"] = [dict(e, modules=modules.get(n, [])) for n, e in enumerate(cards)]
        found["lldp"] = read_lldp({each["port"] for own in modules.values() for each in own})
    else:
        found["processes"] = read_processes()[0]
    print(json.dumps(found))


main()
