"""VLANs and bonds of a museum's machine: what stands on what, as sysfs has it."""

from __future__ import annotations

import re

from tests.unit.helpers.museum_hardware import Hardware

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
