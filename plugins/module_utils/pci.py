"""PCI functions: where they are, and two of their registers. Runs on the node.

Registers are read and written where setpci does it, in sysfs; so pciutils need not be there, and
only the bits in question change. Offsets: Linux include/uapi/linux/pci_regs.h.
"""

from __future__ import annotations

import os
import re
from functools import partial

from .machine import Machine, NodeError
from .netdevs import below
from .rails import Rail

DEVICES = "/sys/bus/pci/devices"
LOCKDOWN = "/sys/kernel/security/lockdown"
ADDRESS = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_NET = "/sys/class/net/"
# VGA, 3D and other display controllers, accelerators such as MI300X.
_CLASSES = ("0x0300", "0x0302", "0x0380", "0x1200")
_NVME = "0x0108"
_VIRTIO = "0x1af4"
NVIDIA, AMD = "0x10de", "0x1002"
# Virtual functions of ConnectX and BlueField, also in a guest, which does not see the physical one.
# [Linux drivers/net/ethernet/mellanox/mlx5/core/main.c: mlx5_core_pci_table, MLX5_PCI_DEV_IS_VF]
_MELLANOX = "0x15b3"
_VIRTUAL = ("0x1012", "0x1014", "0x1016", "0x1018", "0x101a", "0x101c", "0x101e", "0xa2d3")

_STATUS, _HAS_CAPABILITIES = 0x06, 0x10
_FIRST_CAPABILITY, _EXPRESS = 0x34, 0x10
_FIRST_EXTENDED, _ACS = 0x100, 0x0D
_DEVICE_CONTROL = 8
_ACS_CONTROL = 6
_READ_REQUEST = 0x7000
_PAYLOAD = 0x00E0
# Request redirect, completion redirect, egress control: what the kernel's pci=disable_acs_redir
# clears, and what keeps its own peer-to-peer DMA from a path (drivers/pci/p2pdma.c).
REDIRECT = 0x04 | 0x08 | 0x20
_NAMES = ((0x04, "ReqRedir"), (0x08, "CmpltRedir"), (0x20, "EgressCtrl"))


class Function:
    """One PCI function.

    Args:
        address: such as 0000:18:00.0.
    """

    def __init__(self, machine: Machine, address: str) -> None:
        self.machine = machine
        self.address = address
        self.directory = f"{DEVICES}/{address}"
        self.config = f"{self.directory}/config"

    @property
    def is_virtual(self) -> bool:
        """Return whether it is a virtual function, whose physical one decides for it."""
        if self.machine.exists(self.directory + "/physfn"):
            return True
        seen = [self.machine.value(f"{self.directory}/{name}") for name in ("vendor", "device")]
        return seen[0] == _MELLANOX and seen[1] in _VIRTUAL

    @property
    def is_paravirtual(self) -> bool:
        """Return whether it is a virtual machine's virtio, which has PCI Express for show only.

        QEMU's shows a MaxReadReq of 128 bytes.
        """
        return self.machine.value(self.directory + "/vendor") == _VIRTIO

    @property
    def iommu_mode(self) -> str:
        """Return how the IOMMU treats it, such as identity or DMA-FQ; empty without one."""
        return self.machine.value(self.directory + "/iommu_group/type") or ""

    @property
    def bridges(self) -> list[str]:
        """Return the addresses of the bridges above it, the one at the root first."""
        parts = self.machine.real(self.directory).split("/")
        return [part for part in parts if ADDRESS.fullmatch(part)][:-1]

    def read_request(self) -> int | None:
        """Return MaxReadReq in bytes; None for a function that is not PCI Express."""
        register = self._device_control()
        return None if register is None else 128 << (self._word(register) >> 12 & 7)

    def payload(self) -> int:
        """Return MaxPayload in bytes, of a function that is PCI Express."""
        return 128 << ((self._word(self._device_control() or 0) & _PAYLOAD) >> 5)

    def set_read_request(self, wanted: int) -> None:
        """Set MaxReadReq, in bytes."""
        code = wanted.bit_length() - 8
        self._change(self._device_control() or 0, _READ_REQUEST, code << 12)

    def redirects(self) -> list[str]:
        """Return which redirects of ACS are on, as lspci calls them."""
        register = self._acs_control()
        value = 0 if register is None else self._word(register)
        return [name for bit, name in _NAMES if value & bit]

    def redirect_off(self) -> None:
        """Have no redirect of ACS on."""
        self._change(self._acs_control() or 0, REDIRECT, 0)

    def _device_control(self) -> int | None:
        found = self._capability(_EXPRESS)
        return None if found is None else found + _DEVICE_CONTROL

    def _acs_control(self) -> int | None:
        found = self._extended(_ACS)
        return None if found is None else found + _ACS_CONTROL

    def _capability(self, wanted: int) -> int | None:
        if not self._word(_STATUS) & _HAS_CAPABILITIES:
            return None
        place = self._word(_FIRST_CAPABILITY) & 0xFC
        for _ in range(48):  # no more fit in: a list that is a circle ends too
            if not place:
                break
            header = self._word(place)
            if header & 0xFF == wanted:
                return place
            place = header >> 8 & 0xFC
        return None

    def _extended(self, wanted: int) -> int | None:
        self._word(_STATUS)  # is there at all
        size = (self.machine.stamp(self.config) or [0])[0]
        place = _FIRST_EXTENDED if size > _FIRST_EXTENDED else 0
        for _ in range(480):
            if not place:
                break
            identity, following = self._word(place), self._word(place + 2)
            if identity == wanted:
                return place
            place = following >> 4 & 0xFFC
        return None

    def _word(self, offset: int) -> int:
        """Return two bytes of the configuration space."""
        word: int = self.machine.ask(f"{self.config} at {offset:#x}", lambda: self._read(offset))
        return word

    def _read(self, offset: int) -> int:
        try:
            with open(self.machine.path(self.config), "rb") as file:
                data = os.pread(file.fileno(), 2, offset)
        except OSError as error:
            raise NodeError(f"{self.config} cannot be read: {error.strerror}") from error
        if len(data) != 2:
            raise NodeError(
                f"{self.config} ends before {offset:#x}: does the user have root privileges?"
            )
        # A capability's header and these registers are never all ones. [PCIe 4.0, 2.3.2]
        if data == b"\xff\xff":
            raise NodeError(
                f"{self.config}: the device does not answer; is it suspended or off the bus?"
            )
        return int.from_bytes(data, "little")

    def _change(self, offset: int, mask: int, value: int) -> None:
        data = (self._word(offset) & ~mask | value).to_bytes(2, "little")
        try:
            with open(self.machine.path(self.config), "r+b") as file:
                os.pwrite(file.fileno(), data, offset)
        except OSError as error:
            raise NodeError(
                f"{self.config} cannot be written: {error.strerror}; a kernel that is locked down "
                "(Secure Boot; /sys/kernel/security/lockdown) does not allow it"
            ) from error


def is_locked_down(machine: Machine) -> bool:
    """Return whether the kernel lets nobody write registers, as with Secure Boot.

    Linux drivers/pci/pci-sysfs.c, pci_write_config: LOCKDOWN_PCI_ACCESS.
    """
    return any(each in (machine.read(LOCKDOWN) or "") for each in ("[integrity]", "[confid"))


def of_rail(machine: Machine, rail: Rail) -> list[Function]:
    """Return the PCI functions of a rail: several of a bond, none of some."""
    if rail.netdev:
        return functions(machine, rail.netdev)
    return [Function(machine, rail.pci)] if rail.pci else []


def functions(machine: Machine, netdev: str) -> list[Function]:
    """Return the PCI functions under a network device: several for a bond, none for some."""
    parts = machine.real(f"{_NET}{netdev}/device").split("/")
    found = [part for part in parts if ADDRESS.fullmatch(part)]
    if found:
        return [Function(machine, found[-1])]
    return [each for name in below(machine, netdev) for each in functions(machine, name)]


def gpus(machine: Machine, vendors: tuple[str, ...] = (NVIDIA, AMD)) -> list[Function]:
    """Return the GPUs of these vendors, without virtual functions of one that is here."""
    return [
        Function(machine, each)
        for each in machine.names(DEVICES)
        if _is_gpu(machine, each, vendors)
    ]


def nvswitch_bridges(machine: Machine) -> list[str]:
    """Return the NICs through which NVLSM manages the NVSwitches of HGX B200 and later.

    Their Vital Product Data say SMDL=SW_MNG, by which nvidia-fabricmanager-start.sh finds them.
    """
    return [
        each
        for each in machine.names(DEVICES)
        if machine.value(f"{DEVICES}/{each}/vendor") == _MELLANOX
        and machine.ask(f"SW_MNG of {each}", partial(_leads, machine, each))
    ]


def _leads(machine: Machine, address: str) -> bool:
    try:
        with open(machine.path(f"{DEVICES}/{address}/vpd"), "rb") as file:
            return b"SW_MNG" in file.read(32768)  # a capability's largest VPD [PCI 3.0, appendix I]
    except OSError:
        return False


def nvme_drives(machine: Machine) -> list[Function]:
    """Return the NVMe drives, which GPUs may read without the processor (GPUDirect Storage)."""
    return [
        Function(machine, each)
        for each in machine.names(DEVICES)
        if (machine.value(f"{DEVICES}/{each}/class") or "").startswith(_NVME)
    ]


def _is_gpu(machine: Machine, address: str, vendors: tuple[str, ...]) -> bool:
    base = f"{DEVICES}/{address}"
    if machine.value(base + "/vendor") not in vendors or machine.exists(base + "/physfn"):
        return False
    return (machine.value(base + "/class") or "").startswith(_CLASSES)
