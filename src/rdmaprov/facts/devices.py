"""Network, RDMA and PCI devices of a node, with their attributes."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from rdmaprov.facts.errors import CouldNotTell
from rdmaprov.facts.host import Host
from rdmaprov.facts.memo import remember
from rdmaprov.facts.text import END, Files, files_command, parse_files, whole

NET = "/sys/class/net"
INFINIBAND = "/sys/class/infiniband"
VERBS = "/sys/class/infiniband_verbs"
PCI = "/sys/bus/pci/devices"
ADDRESS = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
LISTING = (
    f"LC_ALL=C find {NET} {INFINIBAND} {PCI} -mindepth 1 -maxdepth 1 -type l "
    f"-printf '%p %l\\n'; echo {END}"
)
_OF_NETDEVS = (
    "mtu mode flags address type ifindex iflink phys_port_name uevent speed carrier "
    "carrier_changes device/vendor device/device bonding/slaves bonding/mode"
)
_OF_RDMA = (
    "parent fw_ver board_id ports/*/state ports/1/phys_state ports/1/rate ports/*/link_layer "
    "ports/*/gid_attrs/ndevs/0"
)
ATTRIBUTES = (
    *(f"{NET}/*/{each}" for each in _OF_NETDEVS.split()),
    *(f"{INFINIBAND}/*/{each}" for each in _OF_RDMA.split()),
    f"{VERBS}/*/ibdev",
)
_WORDS = " ".join(ATTRIBUTES)


@dataclass(frozen=True)
class Devices:
    """All devices of a node."""

    # by a device's path in a class, such as /sys/class/net/ens1, its place in the machine, such as
    # /sys/devices/pci0000:00/0000:00:04.0/net/ens1
    paths: Mapping[str, str]
    files: Files

    def names(self, of_class: str) -> list[str]:
        """Return the devices of a class by name, such as those of /sys/class/net."""
        return self._by_class.get(of_class, [])

    @cached_property
    def _by_class(self) -> Mapping[str, list[str]]:
        found: dict[str, list[str]] = {}
        for path in sorted(self.paths):
            of_class, _, name = path.rpartition("/")
            found.setdefault(of_class, []).append(name)
        return found

    def netdev(self, name: str, attribute: str) -> str:
        """Return an attribute of a network device; CouldNotTell if it cannot be read."""
        return self.files.must(f"{NET}/{name}/{attribute}")

    def port(self, name: str, attribute: str) -> str:
        """Return an attribute of an RDMA device's port; CouldNotTell if it cannot be read."""
        return self.files.must(f"{INFINIBAND}/{name}/ports/1/{attribute}")

    def pci_of(self, path: str) -> list[str]:
        """Return the PCI addresses on the way to a device, the root port first, its own last."""
        return self._ways.get(path, [])

    @cached_property
    def _ways(self) -> Mapping[str, list[str]]:
        return {
            path: [part for part in place.split("/") if ADDRESS.fullmatch(part)]
            for path, place in self.paths.items()
        }

    def ports(self, rdma: str) -> set[str]:
        """Return the numbers of an RDMA device's ports."""
        return self._ports.get(rdma, set())

    @cached_property
    def _ports(self) -> Mapping[str, set[str]]:
        found: dict[str, set[str]] = {}
        for path in (*self.files.texts, *self.files.reasons):
            rdma, ports, number = path.removeprefix(f"{INFINIBAND}/").partition("/ports/")
            if ports and "/" not in rdma:
                found.setdefault(rdma, set()).add(number.partition("/")[0])
        return found

    @cached_property
    def smi(self) -> Mapping[str, str]:
        """Return by SMI device, which carries management alone, the device that it belongs to."""
        # It has a port for each plane, and no uverbs: Linux core/uverbs_main.c, ib_uverbs_add_one.
        texts = self.files.texts.items()
        verbs = {text.strip() for path, text in texts if path.startswith(VERBS)}
        found: dict[str, str] = {}
        for rdma in self.names(INFINIBAND):
            place = self.pci_of(f"{INFINIBAND}/{rdma}")
            for other in self.names(INFINIBAND) if place and rdma not in verbs else ():
                if other == rdma or self.pci_of(f"{INFINIBAND}/{other}") != place:
                    continue
                fewer = len(self.ports(other)) < len(self.ports(rdma))
                if other in verbs or fewer or ("smi" in rdma and "smi" not in other):
                    found.setdefault(rdma, other)
        return found

    def below(self, netdev: str) -> tuple[str, ...]:
        """Return the network devices that a bond or a VLAN is on; none for a port."""
        slaves = self.files.value(f"{NET}/{netdev}/bonding/slaves")
        if slaves is not None:
            return tuple(slaves.split())
        if "DEVTYPE=vlan" not in (self.files.value(f"{NET}/{netdev}/uevent") or "").split():
            return ()
        number = self.files.value(f"{NET}/{netdev}/iflink")
        indexes = {self.files.value(f"{NET}/{name}/ifindex"): name for name in self.names(NET)}
        return (indexes[number],) if number in indexes else ()

    def is_software(self, rdma: str) -> bool:
        """Return whether an RDMA device is Soft-RoCE or the like: no card, no rate, no PCI."""
        return "/virtual/" in self.paths.get(f"{INFINIBAND}/{rdma}", "")


def read(host: Host) -> Devices:
    """Return the node's devices, by two commands."""
    listing, attributes = host.run(LISTING), host.run(files_command(*ATTRIBUTES))
    return parse(listing.stdout, attributes.stdout, attributes.stderr)


@remember
def parse(listing: str, attributes: str, errors: str) -> Devices:
    """Return the devices of `LISTING` and of the files that are `ATTRIBUTES`."""
    return Devices(parse_listing(listing), parse_files(attributes, errors, _WORDS))


def parse_listing(stdout: str) -> Mapping[str, str]:
    """Return each device's place in the machine, from `find -printf '%p %l'`."""
    paths = {}
    for line in whole(stdout, "listing devices").splitlines():
        path, _, target = line.partition(" ")
        found = re.fullmatch(r"(?:\.\./)+(devices/\S+)", target)
        if not path.startswith("/sys/") or found is None:
            raise CouldNotTell(f"listing devices: {line[:80]!r} is no link of sysfs")
        paths[path] = "/sys/" + found[1]
    return paths
