"""A made-up node that has what a museum's machine was captured with, and nothing else.

Roles and suite see one tree: sysfs as the captured programs show it, the captured
files over it, and programs that answer with what they printed.
"""

import re
from collections.abc import Iterable
from pathlib import Path

from plugins.module_utils.machine import CommandFailed
from testinfra.host import Host
from tests.roles.fake import FakeMachine
from tests.unit.helpers import museum_hardware
from tests.unit.helpers.museum import Command, Museum
from tests.unit.helpers.museum_hardware import Hardware, full
from tests.unit.helpers.museum_outputs import PROGRAMS, ethtool
from tests.validate.fake_node import FakeNode

_NODE_NAME = re.compile(r"GPU\d+|NIC\d+|mlx5_\w+")
_GPU_DOMAIN, _BRIDGE_DOMAIN = "fff1", "fff2"


def take_topology(hardware: Hardware, text: str) -> None:
    """Have the matrix's GPUs and bridges. The RDMA devices have PCI addresses already."""
    columns, rows = _matrix(text)
    names = _names(text, hardware, columns)
    gpus = [name for name in columns if name.startswith("GPU")]
    of = {name: hardware.pci_of[names[name]] for name in columns if name in names}
    of |= dict(zip(gpus, _gpu_addresses(hardware, len(gpus)), strict=True))
    for column, name in enumerate(columns):
        if name in of:
            relations = rows.get(name) or [row[column] for row in rows.values()]
            hardware.ways.setdefault(of[name], tuple(_bridges(relations)))


def _matrix(text: str) -> tuple[list[str], dict[str, list[str]]]:
    """Return the columns' names, and the relations of each row to them; a part lacks rows."""
    columns, rows = list[str](), {}
    for line in text.splitlines():
        words = re.sub(r"\x1b\[[0-9;]*m", "", line).split()
        if not columns:
            columns = [word for word in words if _NODE_NAME.fullmatch(word)]
        elif len(words) > len(columns) and _NODE_NAME.fullmatch(words[0]):
            rows[words[0]] = words[1 : len(columns) + 1]
    return columns, rows


def _names(text: str, hardware: Hardware, rows: Iterable[str]) -> dict[str, str]:
    """Return RDMA devices by the name in the matrix: by the legend, else by number."""
    legend = dict(re.findall(r"(?m)^\s*(NIC\d+): (\S+)", text))
    by_number = sorted(hardware.rdma, key=lambda each: (hardware.pci_of[each], each))
    nics = [name for name in rows if name.startswith("NIC")]
    guess = dict(zip(nics, by_number, strict=False)) if len(nics) == len(by_number) else {}
    own = {name: name for name in rows}
    return {
        name: rdma
        for name, rdma in {**own, **guess, **legend}.items()
        if rdma in hardware.rdma and name in rows
    }


def _gpu_addresses(hardware: Hardware, count: int) -> list[str]:
    """Return the GPUs' addresses; stand-ins if the captures show others than all of them."""
    gpus = [
        address
        for address, attributes in hardware.functions.items()
        if attributes.get("vendor") == "0x10de" and attributes.get("class", "").startswith("0x03")
    ]
    if len(gpus) == count:
        return sorted(gpus)
    for address in gpus:
        del hardware.functions[address]
    found = [f"{_GPU_DOMAIN}:{index + 1:02x}:00.0" for index in range(count)]
    for address in found:
        hardware.functions[address].update({"vendor": "0x10de", "class": "0x030200"})
    return found


def _bridges(relations: list[str]) -> list[str]:
    """Return the bridges above a device: one for each set of devices that share one."""
    found = []
    for depth, near in enumerate((("X", "PIX", "PXB"), ("X", "PIX"))):
        shared = [index for index, relation in enumerate(relations) if relation in near]
        if len(shared) > 1:
            found.append(f"{_BRIDGE_DOMAIN}:{shared[0] + 1:02x}:{depth:02x}.0")
    return found


_NAME = re.compile(r"(?:ib|roce|en)(?:P(\d+))?p(\d+)s(\d+)(?:f(\d+))?(?:v(\d+))?")
_DOMAIN = "fff0"
# systemd.net-naming-scheme(7); rdma-core kernel-boot/rdma-persistent-naming.rules.
_KINDS = {"ib": "InfiniBand", "en": "Ethernet", "roce": "Ethernet"}


def give_places(hardware: Hardware) -> None:
    _virtual_functions(hardware)
    _match_by_number(hardware)
    for name in sorted(hardware.rdma, key=_natural):
        attributes = hardware.rdma[name]
        if "parent" in attributes:
            continue
        netdev = attributes.get("ports/1/gid_attrs/ndevs/0", "")
        address = (
            hardware.pci_of.get(name)
            or hardware.pci_of.get(netdev)
            or _named(name)
            or _named(netdev)
            or _stand_in(hardware, attributes.get("sys_image_guid", ""))
        )
        hardware.place(name, address)
        hardware.functions[address].setdefault("vendor", "0x15b3")
        # Linux drivers/infiniband/hw/mlx5/main.c, hca_type_show: MT and the PCI device's number.
        if model := re.fullmatch(r"MT(\d{4,5})", attributes.get("hca_type", "")):
            hardware.functions[address].setdefault("device", f"{int(model[1]):#06x}")
        if (virtual := _NAME.match(netdev or name)) and virtual[5]:
            hardware.functions[address]["physfn/vendor"] = "0x15b3"
        if netdev and "bond" not in netdev:
            hardware.place(netdev, address)
        if kind := _KINDS.get(_prefix(netdev) or _prefix(name)):
            attributes.setdefault("ports/1/link_layer", kind)
    for netdev in hardware.netdevs:
        if address := _named(netdev):
            hardware.place(netdev, address)
            if _NAME.match(netdev)[5]:  # type: ignore[index]
                hardware.functions[address]["physfn/vendor"] = "0x15b3"


def _virtual_functions(hardware: Hardware) -> None:
    """Have the link to the physical function where one of the same bus is listed, as on a host."""
    real = {
        address[:8] for address, each in hardware.functions.items() if each.get("name") == "real"
    }
    for address, each in hardware.functions.items():
        if each.pop("name", "") == "virtual" and address[:8] in real:
            each["physfn/vendor"] = each.get("vendor", "")


def _match_by_number(hardware: Hardware) -> None:
    """Have the RDMA devices on the listed NICs, in both orders, where there are as many."""
    nics = [
        address
        for address, each in sorted(hardware.functions.items())
        if each.get("vendor") == "0x15b3" and each.get("class", "").startswith("0x02")
    ]
    names = sorted(hardware.rdma, key=_natural)
    if len(nics) == len(names) and not any(name in hardware.pci_of for name in names):
        for name, address in zip(names, nics, strict=True):
            hardware.place(name, address)


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part or 0), text) for text, part in re.findall(r"(\D+)(\d*)", name)]


def _prefix(name: str) -> str:
    found = re.match(r"(ib|en|roce)(?=P?\d*p\d+s|s\d)", name)
    return found[1] if found else ""


def _named(name: str) -> str:
    found = _NAME.match(name)
    if not found:
        return ""
    domain, bus, slot, function = (int(each or 0) for each in found.groups()[:4])
    if found[5]:  # a virtual function, the first one right after its physical one
        number = function + 1 + int(found[5])
        slot, function = slot + number // 8, number % 8
    return f"{domain:04x}:{bus:02x}:{slot:02x}.{function}"


def _stand_in(hardware: Hardware, card: str) -> str:
    """Return an address that is free: the next function of a card that is known by its GUID."""
    used = [each for each in hardware.functions if each.startswith(_DOMAIN)]
    same = [
        hardware.pci_of[name]
        for name, attributes in hardware.rdma.items()
        if card and attributes.get("sys_image_guid") == card and name in hardware.pci_of
    ]
    if same and len(same) < 8 and same[0].startswith(_DOMAIN):
        return f"{same[0][:-1]}{len(same)}"
    bus = 1 + max((int(each[5:7], 16) for each in used), default=0)
    return f"{_DOMAIN}:{bus:02x}:00.0"


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
    """The made-up node."""

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
        give_places(self.hardware)
        for command in museum.printed("nvidia-smi"):
            if "topo" in command.argv:
                take_topology(self.hardware, command.stdout)
        self._tree()

    def has(self, path: str) -> bool:
        return (self.root / path.lstrip("/")).exists()

    def _take(self, command: Command) -> None:
        """Take what an output shows of the hardware."""
        program, options = command.argv[0].rpartition("/")[2], set(command.argv[1:])
        if command.stdout.lstrip().startswith("<system"):
            museum_hardware.nccl_topology(self.hardware, command.stdout)
        elif "gpu-nic-rail-mapping" in program:
            museum_hardware.rail_mapping(self.hardware, command.stdout, command.argv)
        elif program == "lspci" and options & {"-tv", "-t", "-tvnn"}:
            museum_hardware.lspci_tree(self.hardware, command.stdout)
        elif program == "lspci" and options & {"-PP", "-P"}:
            museum_hardware.lspci_paths(self.hardware, command.stdout)
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
