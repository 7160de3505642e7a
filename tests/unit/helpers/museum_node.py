"""A made-up node that has what a museum's machine was captured with, and nothing else.

Roles and suite see one tree: sysfs as the captured programs show it, the captured
files over it, and programs that answer with what they printed.
"""

from __future__ import annotations

import re
from pathlib import Path

from plugins.module_utils.machine import CommandFailed
from testinfra.host import Host
from tests.roles.fake import FakeMachine
from tests.unit.helpers import museum_places, museum_topology, museum_trees
from tests.unit.helpers.museum import Command, Museum
from tests.unit.helpers.museum_hardware import Hardware, full
from tests.unit.helpers.museum_outputs import PROGRAMS, ethtool
from tests.validate.fake_node import FakeNode

_CLASS = re.compile(r"/sys/class/(net|infiniband)/([^/]+)/(.+)")
_FUNCTION = re.compile(r"/sys/bus/pci/devices/([^/]+)/(.+)")
_ASKED = ("dcb", "modinfo", "ofed_info", "ethtool", "mlxconfig", "mstconfig")  # by the suite
WICKED = "/usr/lib/systemd/system/wicked.service"
# Program and sign of the manager that a captured file is of.
_MANAGERS = {
    "/etc/netplan/": ("netplan", "/usr/sbin/netplan"),
    "/etc/network/interfaces": ("ifup", "/etc/network/interfaces"),
    "/etc/NetworkManager/system-connections/": ("nmcli", "/run/NetworkManager"),
    "/etc/sysconfig/network-scripts/": ("nmcli", "/run/NetworkManager"),
    "/etc/systemd/network/": ("networkctl", "/run/systemd/netif/state"),
}


class MuseumNode:
    """The made-up node.

    Args:
        museum: the machine.
        root: where its tree goes.
    """

    def __init__(self, museum: Museum, root: Path) -> None:
        self.museum = museum
        self.root = root
        root.mkdir(parents=True)
        self.tree = FakeNode(root)
        self.machine = FakeMachine(root)
        self.host: Host = self.tree.host()
        self.hardware = Hardware()
        for command in museum.commands:
            self._take(command)
            self._answer(command)
        self._files()
        museum_places.give(self.hardware)
        for command in museum.printed("nvidia-smi"):
            if "topo" in command.argv:
                museum_topology.take(self.hardware, command.stdout)
        self._tree()

    def has(self, path: str) -> bool:
        """Return whether the capture shows a file."""
        return (self.root / path.lstrip("/")).exists()

    def _take(self, command: Command) -> None:
        """Take what an output shows of the hardware."""
        program, options = command.argv[0].rpartition("/")[2], set(command.argv[1:])
        if command.stdout.lstrip().startswith("<system"):
            museum_trees.nccl_topology(self.hardware, command.stdout)
        elif "gpu-nic-rail-mapping" in program:
            museum_trees.rail_mapping(self.hardware, command.stdout, command.argv)
        elif program == "lspci" and options & {"-tv", "-t", "-tvnn"}:
            museum_trees.lspci_tree(self.hardware, command.stdout)
        elif program == "lspci" and options & {"-PP", "-P"}:
            museum_trees.lspci_paths(self.hardware, command.stdout)
        elif program in PROGRAMS:
            PROGRAMS[program](self.hardware, command.stdout)
        elif program == "ethtool" and "-i" in options:
            ethtool(self.hardware, command.stdout, command.argv[-1])

    def _answer(self, command: Command) -> None:
        failed = CommandFailed(list(command.argv), command.rc, command.stderr or command.stdout)
        self.machine.programs[command.line] = failed if command.rc else command.stdout
        if "Id=wicked.service" in command.stdout:  # what systemd knows by this link
            self.tree.link("/etc/systemd/system/network.service", WICKED)
        if command.argv[0] in _ASKED:
            self.tree.answer(command.line, command.stdout, command.stderr, command.rc)

    def _files(self) -> None:
        """Take what the captured files say of devices; others are put as they are."""
        for path, text in self.museum.files.items():
            if found := _CLASS.fullmatch(path):
                self._device(found[1], found[2], found[3], text)
            elif found := _FUNCTION.fullmatch(path):
                self.hardware.functions[full(found[1])][found[2]] = text.rstrip("\n")
            else:
                self.tree.put(path, text)
                self._manager(path)
                if found := re.fullmatch(r"/sys/module/([^/]+)/refcnt", path):
                    self.hardware.modules[found[1]]["initstate"] = "live"

    def _manager(self, path: str) -> None:
        """Have the program whose file was captured, with the sign that it runs."""
        for start, (program, sign) in _MANAGERS.items():
            if path.startswith(start):
                self.machine.programs.setdefault(program, "")
                if not self.has(sign):
                    self.tree.put(sign)

    def _device(self, kind: str, name: str, attribute: str, text: str) -> None:
        devices = self.hardware.netdevs if kind == "net" else self.hardware.rdma
        devices.setdefault(name, {})
        if attribute == "device/uevent":
            if found := re.search(r"(?m)^PCI_SLOT_NAME=(\S+)$", text):
                self.hardware.place(name, found[1])
        else:
            devices[name][attribute] = text.rstrip("\n")

    def _tree(self) -> None:
        here = self.hardware
        for name, attributes in here.modules.items():
            self._put(f"/sys/module/{name}", attributes)
        for address, attributes in sorted(here.functions.items()):
            place = self._place(address)
            self._put(place, attributes)
            self.tree.link(f"/sys/bus/pci/devices/{address}", place)
        for kind, devices in (("net", here.netdevs), ("infiniband", here.rdma)):
            for index, (name, attributes) in enumerate(sorted(devices.items()), start=2):
                self._class(kind, name, attributes, index)

    def _class(self, kind: str, name: str, attributes: dict[str, str], index: int) -> None:
        pci = self.hardware.pci_of.get(name, "")
        above = self._place(pci) if pci else "/sys/devices/virtual"
        place = f"{above}/{kind}/{name}"
        of_function = {key[7:]: attributes[key] for key in attributes if key.startswith("device/")}
        attributes = {key: value for key, value in attributes.items() if key[7:] not in of_function}
        self._put(above, of_function if pci else {})
        numbers = {"ifindex": str(index), "iflink": str(index)} if kind == "net" else {}
        self._put(place, {**numbers, **attributes})
        (self.root / place[1:]).mkdir(parents=True, exist_ok=True)
        self.tree.link(f"/sys/class/{kind}/{name}", place)
        if pci:
            self.tree.link(f"{place}/device", above)

    def _place(self, address: str) -> str:
        above = self.hardware.ways.get(address, ())
        root = (above or (address,))[0][:7]
        return "/".join([f"/sys/devices/pci{root}", *above, address])

    def _put(self, place: str, attributes: dict[str, str]) -> None:
        for name, value in attributes.items():
            self.tree.put(f"{place}/{name}", value + "\n")
