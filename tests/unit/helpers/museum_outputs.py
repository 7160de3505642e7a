"""What programs show of network and RDMA devices, as attributes of sysfs.

A capture mostly has programs' outputs and no sysfs. These programs print what sysfs has, so the
files of sysfs that our readers take can be made from them. Nothing is added: what no capture
shows is in no file.
"""

import re
from collections.abc import Callable

from tests.unit.helpers.museum_hardware import ADDRESS, Hardware, full, lspci, nvidia_smi, rocm_smi

# wicked's names of the modes, src/names.c; the kernel's, Documentation/networking/bonding.rst.
_MODES = {"ieee802-3ad": "802.3ad 4", "active-backup": "active-backup 1"}


def vlan(hardware: Hardware, name: str, parent: str) -> None:
    """Have a VLAN on a network device whose number is known."""
    attributes = hardware.netdevs[name]
    attributes["uevent"] = f"DEVTYPE=vlan\nINTERFACE={name}"
    attributes[f"lower_{parent}/uevent"] = f"INTERFACE={parent}"
    attributes["iflink"] = hardware.netdevs[parent].get("ifindex", "0")


def wicked(hardware: Hardware, text: str) -> None:
    """Take what `wicked ifstatus --verbose` shows. Source: wicked, client/ifstatus.c."""
    name = ""
    for line in text.splitlines():
        if found := re.match(r"(\S+) +\S+$", line):
            name = found[1]
        elif found := re.match(r"\s+link:\s+#(\d+)(.*)", line):
            _link(hardware, name, found[1], found[2])
        elif found := re.match(r"\s+type:\s+vlan ([^\[]+)\[\d+\]", line):
            vlan(hardware, name, found[1])
        elif found := re.match(r"\s+type:\s+bond, mode ([^,]+)", line):
            hardware.netdevs[name]["bonding/mode"] = _MODES[found[1]]


def _link(hardware: Hardware, name: str, index: str, rest: str) -> None:
    hardware.netdevs[name]["ifindex"] = index
    if found := re.search(r"mtu (\d+)", rest):
        hardware.netdevs[name]["mtu"] = found[1]
    if found := re.search(r"master (\S+)", rest):
        master = hardware.netdevs[found[1]]
        master["uevent"] = f"DEVTYPE=bond\nINTERFACE={found[1]}"
        master[f"lower_{name}/uevent"] = f"INTERFACE={name}"
        master["bonding/slaves"] = f"{master.get('bonding/slaves', '')} {name}".strip()


_STATES = {
    "down": "1: DOWN",
    "init": "2: INIT",
    "initializing": "2: INIT",
    "armed": "3: ARMED",
    "active": "4: ACTIVE",
}
_PHYSICAL = {
    "linkup": "5: LinkUp",
    "link_up": "5: LinkUp",
    "disabled": "3: Disabled",
    "polling": "2: Polling",
    "sleep": "1: Sleep",
}


_DEVICE = {"ca type": "hca_type", "node guid": "node_guid", "system image guid": "sys_image_guid"}


def _ibstat(hardware: Hardware, text: str) -> None:
    name, port = "", ""
    for line in text.splitlines():
        if found := re.match(r"CA '(\S+)'", line):
            name, port = found[1], ""
            hardware.rdma.setdefault(name, {})
        elif found := re.match(r"\s+Port (\d+):", line):
            port = found[1]
        elif name:
            key, _, value = line.strip().partition(": ")
            _port_value(hardware.rdma[name], port, key.lower(), value.strip())


def _port_value(device: dict[str, str], port: str, key: str, value: str) -> None:
    """Have what ibstat calls KEY. Source: rdma-core infiniband-diags/ibstat.c."""
    if key == "firmware version":
        device["fw_ver"] = value
    elif key in _DEVICE:
        device[_DEVICE[key]] = value
    if not port:
        return
    names = {"state": _STATES, "physical state": _PHYSICAL}
    if key in names and value:
        name = "phys_state" if key == "physical state" else "state"
        device[f"ports/{port}/{name}"] = names[key].get(value.lower(), value)
    elif key == "rate" and value:
        device[f"ports/{port}/rate"] = f"{value.split()[0]} Gb/sec"
    elif key == "link layer" and value:
        device[f"ports/{port}/link_layer"] = value


def _ibstatus(hardware: Hardware, text: str) -> None:
    base: tuple[str, str] | None = None
    for line in text.splitlines():
        if found := re.match(r"Infiniband device '(\S+)' port (\d+) status:", line):
            base = found[1], found[2]
        elif base and (found := re.match(r"\s+(state|phys state|rate|link_layer):\s+(.+)", line)):
            key = found[1].replace(" ", "_")
            hardware.rdma[base[0]][f"ports/{base[1]}/{key}"] = found[2].strip()
        elif base and (found := re.match(r"\s+(default gid|base lid|sm lid):\s+(\S+)", line)):
            file = {"default gid": "gids/0", "base lid": "lid", "sm lid": "sm_lid"}[found[1]]
            hardware.rdma[base[0]][f"ports/{base[1]}/{file}"] = found[2]


def _ibv_devinfo(hardware: Hardware, text: str) -> None:
    """Read ibv_devinfo. Source: rdma-core libibverbs/examples/devinfo.c."""
    name, port, width = "", "", 0
    for line in text.splitlines():
        key, _, value = (each.strip() for each in line.partition(":"))
        if key == "hca_id":
            name, port = value, ""
            hardware.rdma.setdefault(name, {})
        elif not name:
            continue
        elif key in ("fw_ver", "board_id", "node_guid", "sys_image_guid"):
            hardware.rdma[name][key] = value
        elif key == "vendor_part_id":
            hardware.rdma[name]["hca_type"] = f"MT{value}"
        elif key == "port":
            port = value
        elif key == "link_layer":
            hardware.rdma[name][f"ports/{port}/link_layer"] = value
        elif found := re.match(r"PORT_(\w+) \((\d)\)", value) if key == "state" else None:
            hardware.rdma[name][f"ports/{port}/state"] = _STATES[found[1].lower()]
        elif found := re.match(r"(\d+)X", value) if key == "active_width" else None:
            width = int(found[1])
        elif found := re.match(r"([\d.]+) Gbps", value) if key == "active_speed" else None:
            rate = float(found[1]) * width
            hardware.rdma[name][f"ports/{port}/rate"] = f"{rate:g} Gb/sec"


def _ibdev2netdev(hardware: Hardware, text: str) -> None:
    """Read ibdev2netdev. The state is the network device's, which RoCE's port follows."""
    form = re.compile(
        rf"(?:({ADDRESS}) +)?(\S+) +(?:\(.*?\) .*?)?port +(\d+) +(?:\(\s*\w+\s*\) )?==> +(\S+)"
        r"(?: +\((\w+)\))?"
    )
    for line in text.splitlines():
        if found := form.match(line.strip()):
            _on(hardware, found[2], found[4], found[3])
            if found[1]:
                hardware.place(found[2], found[1])
                hardware.place(found[4], found[1])
            if found[5] and not found[4].startswith("ib"):
                state = _STATES["active" if found[5] == "Up" else "down"]
                hardware.rdma[found[2]].setdefault(f"ports/{found[3]}/state", state)


def _show_gids(hardware: Hardware, text: str) -> None:
    for line in text.splitlines():
        words = line.split()
        if len(words) > 4 and words[1].isdigit() and words[2].isdigit():
            hardware.rdma.setdefault(words[0], {})
            if not words[-1].startswith("v"):
                _on(hardware, words[0], words[-1], words[1])


def _on(hardware: Hardware, rdma: str, netdev: str, port: str = "1") -> None:
    hardware.netdevs.setdefault(netdev, {})
    hardware.rdma[rdma][f"ports/{port}/gid_attrs/ndevs/0"] = netdev


def _rdma_link(hardware: Hardware, text: str) -> None:
    form = re.compile(
        r"(?:\d+/\d+: |link )(\S+?)/(\d+):? .*?state (\S+)"
        r"(?: physical_state (\S+))?(?: netdev (\S+))?"
    )
    for line in text.splitlines():
        if found := form.match(line.strip()):
            device = hardware.rdma[found[1]]
            device[f"ports/{found[2]}/state"] = _STATES.get(found[3].lower(), found[3])
            if found[4]:
                device[f"ports/{found[2]}/phys_state"] = _PHYSICAL.get(found[4].lower(), found[4])
            if found[5]:
                _on(hardware, found[1], found[5], found[2])


def _mst_status(hardware: Hardware, text: str) -> None:
    """Read `mst status -v`. A virtual function is of type NA, below one of its bus that is not."""
    form = re.compile(rf"(\S+)\s+\S+\s+({ADDRESS})\s+(\S+)\s+(?:net-(\S+))?\s*(-?\d+)?")
    for line in text.splitlines():
        if not (found := form.match(line)):
            continue
        kind, where, rdma, netdevs, numa_node = found.groups()
        function = hardware.functions[full(where)]
        function["vendor"] = "0x15b3"
        if numa_node:
            function["numa_node"] = numa_node
        if kind == "NA":
            function["physfn/vendor"] = "0x15b3"
        if rdma != "-":
            hardware.rdma.setdefault(rdma, {})
            hardware.place(rdma, where)
        for netdev in (netdevs or "").split(",net-"):
            if netdev:
                hardware.netdevs.setdefault(netdev, {})
                hardware.place(netdev, where)


def _ip(hardware: Hardware, text: str) -> None:
    form = re.compile(r"(\d+): ([^@:\s]+)(?:@(\S+?))?: <([^>]*)> mtu (\d+)")
    for line in text.splitlines():
        if found := form.match(line.strip()):
            hardware.netdevs[found[2]].update({"mtu": found[5], "ifindex": found[1]})
            # Not ib0.8001@ib0, a partition of IPoIB.
            if found[3] and re.fullmatch(rf"(?!ib){re.escape(found[3])}\.\d+", found[2]):
                vlan(hardware, found[2], found[3])


def _ls(hardware: Hardware, text: str) -> None:
    """Read `ls -l` of a class in sysfs: names and where they lead."""
    form = re.compile(r".* (\S+) -> (?:\.\./)+devices/(\S+)/(net|infiniband)/(\S+)")
    for line in text.splitlines():
        if found := form.match(line):
            way = re.findall(ADDRESS, found[2])
            devices = hardware.netdevs if found[3] == "net" else hardware.rdma
            devices.setdefault(found[1], {})
            if way:
                hardware.place(found[1], way[-1])
                hardware.ways[full(way[-1])] = tuple(full(each) for each in way[:-1])


def ethtool(hardware: Hardware, text: str, netdev: str) -> None:
    """Take a network device's PCI function and module from `ethtool -i`."""
    values = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    if re.fullmatch(ADDRESS, values.get("bus-info", "")):
        hardware.netdevs.setdefault(netdev, {})
        hardware.place(netdev, values["bus-info"])
    if values.get("driver") == "mlx5_core" and "version" in values:
        hardware.modules["mlx5_core"]["version"] = values["version"]


def _lsmod(hardware: Hardware, text: str) -> None:
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 3 and words[1].isdigit():
            for name in (words[0], *(words[3].split(",") if len(words) > 3 else ())):
                hardware.modules[name]["initstate"] = "live"


PROGRAMS: dict[str, Callable[[Hardware, str], None]] = {
    "lspci": lspci,
    "ibstat": _ibstat,
    "ibstatus": _ibstatus,
    "ibv_devinfo": _ibv_devinfo,
    "ibdev2netdev": _ibdev2netdev,
    "rdma": _rdma_link,
    "mst": _mst_status,
    "ip": _ip,
    "ls": _ls,
    "lsmod": _lsmod,
    "show_gids": _show_gids,
    "wicked": wicked,
    "nvidia-smi": nvidia_smi,
    "rocm-smi": rocm_smi,
    "amd-smi": rocm_smi,
}
