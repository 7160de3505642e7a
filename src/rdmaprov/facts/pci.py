"""PCI functions of a node: what each is, its NUMA node, two registers, interrupts.

Offsets: Linux include/uapi/linux/pci_regs.h.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from rdmaprov.facts.devices import PCI
from rdmaprov.facts.errors import CouldNotTell
from rdmaprov.facts.host import Host
from rdmaprov.facts.memo import remember
from rdmaprov.facts.text import END, Files, read_files, whole

VIRTIO, NVIDIA, AMD, MELLANOX = "0x1af4", "0x10de", "0x1002", "0x15b3"
# VGA, 3D and other display controllers, accelerators such as MI300X.
_DISPLAY = ("0x0300", "0x0302", "0x0380", "0x1200")
# NVSwitches up to Hopper's, such as 10de:22a3. Those of HGX B200 and later are managed over NICs.
_NVSWITCH = "0x0680"
_NVME = "0x0108"
_HEADER = ("vendor", "class", "numa_node", "physfn/vendor")
# Request redirect, completion redirect, egress control: what the kernel's pci=disable_acs_redir
# clears (drivers/pci/pci.c).
_REDIRECTS = ((0x04, "ReqRedir"), (0x08, "CmpltRedir"), (0x20, "EgressCtrl"))


@dataclass(frozen=True)
class Functions:
    """What all PCI functions of a node say of themselves."""

    files: Files

    @classmethod
    def read(cls, host: Host) -> Self:
        """Return the node's functions, by one command."""
        return cls(read_files(host, *(f"{PCI}/*/{name}" for name in _HEADER)))

    def vendor(self, address: str) -> str:
        """Return a function's vendor, such as 0x15b3."""
        return self.files.must(f"{PCI}/{address}/vendor")

    def numa_node(self, address: str) -> int:
        """Return its NUMA node; -1 if the firmware does not say."""
        return self.files.number(f"{PCI}/{address}/numa_node")

    def gpus(self, vendors: tuple[str, ...] = (NVIDIA, AMD)) -> tuple[str, ...]:
        """Return the addresses of these vendors' GPUs, in the order of nvidia-smi's index.

        A virtual function of a GPU that is here too is none: a host gives it to a guest.
        """
        found = [
            each
            for each in self._of(*_DISPLAY)
            if self.vendor(each) in vendors
            and f"{PCI}/{each}/physfn/vendor" not in self.files.texts
        ]
        return tuple(sorted(found, key=lambda address: (len(address), address)))

    def nvswitches(self) -> tuple[str, ...]:
        """Return the addresses of the NVSwitches that are PCI functions of the node."""
        return tuple(each for each in self._of(_NVSWITCH) if self.vendor(each) == NVIDIA)

    def nvswitch_bridges(self, host: Host) -> tuple[str, ...]:
        """Return the NICs that lead to the NVSwitches of HGX B200 and later: SW_MNG in their VPD.

        nvidia-fabricmanager-start.sh asks RDMA devices, of which there are none without mlx5_ib.

        Raises:
            CouldNotTell: the user may not read their VPD.
        """
        nics = [each for each in self._of("0x02") if self.vendor(each) == MELLANOX]
        paths = " ".join(f"{PCI}/{each}/vpd" for each in nics) or "/dev/null"
        # Some NICs have no VPD (ENOENT), or none that is valid (EIO).
        done = host.run(f"LC_ALL=C grep -la SW_MNG {paths}; echo {END}")
        if "ermission denied" in done.stderr:
            raise CouldNotTell(f"{nics[0]}/vpd: Permission denied; set ansible_become: true")
        return tuple(each.split("/")[-2] for each in whole(done.stdout, "VPD").splitlines())

    def nvme_drives(self) -> tuple[str, ...]:
        """Return the addresses of the NVMe drives."""
        return tuple(self._of(_NVME))

    def _of(self, *classes: str) -> list[str]:
        found = self.files.matching(PCI + r"/([^/]+)/class")
        return [match[1] for match, text in found if text.startswith(classes)]


def config_spaces(host: Host, addresses: Sequence[str]) -> Mapping[str, bytes]:
    """Return the configuration space of functions; beyond 64 bytes only for root."""
    command = "".join(
        f"echo '== {each}'; LC_ALL=C od -An -v -tx1 {PCI}/{each}/config 2>&1; "
        for each in addresses
    )
    body = whole(host.run(f"{command}echo {END}").stdout, "reading PCI registers")
    return parse_config_spaces(body)


@remember
def parse_config_spaces(body: str) -> Mapping[str, bytes]:
    """Return what `od -An -v -tx1` printed for each function after its line `== ADDRESS`."""
    parts = re.split(r"(?m)^== (\S+)\n", body)
    found = {}
    for address, text in zip(parts[1::2], parts[2::2], strict=True):
        try:
            found[address] = bytes.fromhex(text)
        except ValueError as error:
            raise CouldNotTell(f"{PCI}/{address}/config: {text.strip()[:80]}") from error
    return found


def max_read_request(space: bytes, address: str) -> int | None:
    """Return MaxReadReq in bytes; None for a function that is not PCI Express.

    Raises:
        CouldNotTell: the registers are cut off, as for a user who is not root.
    """
    _require(space, 64, address)
    place = space[0x34] & 0xFC if space[0x06] & 0x10 else 0
    for _ in range(48):  # no more fit in: a list that is a circle ends too
        if not place:
            return None
        _require(space, place + 10, address)
        if space[place] == 0x10:
            return 128 << (space[place + 9] >> 4 & 7)
        place = space[place + 1] & 0xFC
    return None


def acs_redirects(space: bytes, address: str) -> tuple[str, ...]:
    """Return which redirects of ACS a bridge has on, as lspci calls them.

    Raises:
        CouldNotTell: the registers are cut off, as for a user who is not root.
    """
    _require(space, 0x104, address)
    place = 0x100
    for _ in range(480):
        _require(space, place + 8, address)
        header = int.from_bytes(space[place : place + 4], "little")
        if header & 0xFFFF == 0x0D:
            control = int.from_bytes(space[place + 6 : place + 8], "little")
            return tuple(name for bit, name in _REDIRECTS if control & bit)
        place = header >> 20 & 0xFFC
        if not place:
            return ()
    return ()


def _require(space: bytes, size: int, address: str) -> None:
    if len(space) < size:
        raise CouldNotTell(
            f"{PCI}/{address}/config: {len(space)} bytes of its registers are readable; "
            "the rest requires root: set ansible_become: true"
        )


def has_iommu(host: Host) -> bool:
    """Return whether the machine has an IOMMU, on or off: Intel's, AMD's or Arm's tables say so."""
    tables = " ".join(f"/sys/firmware/acpi/tables/{name}" for name in ("DMAR", "IVRS", "IORT"))
    shown = whole(host.run(f"ls -d /sys/class/iommu/* {tables} 2>&1; echo {END}").stdout, "IOMMU")
    return any(line.startswith("/sys/") for line in shown.splitlines())
