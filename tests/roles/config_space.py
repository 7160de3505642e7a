"""Configuration spaces of PCI functions: captured ones, and made-up ones."""

import re
from pathlib import Path

from tests.roles.fake import FakeMachine

SIZE = 4096
EXPRESS = 0x40
ACS = 0x140
CONTROL = EXPRESS + 8
ACS_CONTROL = ACS + 6


def captured(path: Path) -> bytes:
    space = bytearray(SIZE)
    for line in path.read_text().splitlines():
        row = re.fullmatch(r"([0-9a-f]{2,3}): ((?:[0-9a-f]{2} ?){16})", line)
        if row:
            start = int(row[1], 16)
            space[start : start + 16] = bytes.fromhex(row[2])
    return bytes(space)


def made_up(read_request: int = 512, acs: int | None = None) -> bytes:
    """Return a PCI Express function's, with ACS control bits behind another capability."""
    space = bytearray(SIZE)
    _put(space, 0x00, 0x10000000 + 0x15B3)
    _put(space, 0x04, 0x0010 << 16)  # status: there is a list of capabilities
    _put(space, 0x34, 0x60)
    _put(space, 0x60, EXPRESS << 8 | 0x01)  # power management, then express
    _put(space, EXPRESS, 0x0002 << 16 | 0x10)
    code = read_request.bit_length() - 8
    _put(space, CONTROL, code << 12 | 0x0930)  # MaxPayload 256, and bits that must stay
    if acs is not None:
        _put(space, 0x100, ACS << 20 | 1 << 16 | 0x01)  # error reporting, then ACS
        _put(space, ACS, 1 << 16 | 0x0D)
        _put(space, ACS + 4, acs << 16 | 0x5F)
    return bytes(space)


def word(machine: FakeMachine, address: str, offset: int) -> int:
    space = Path(machine.path(f"/sys/bus/pci/devices/{address}/config")).read_bytes()
    return int.from_bytes(space[offset : offset + 2], "little")


def put(machine: FakeMachine, where: str, space: bytes, **files: str) -> None:
    """Have a function at a path of bridges, such as pci0000:17/0000:17:01.0/0000:18:00.0."""
    directory = f"/sys/devices/{where}"
    machine.put(f"{directory}/vendor", files.pop("vendor", "0x15b3") + "\n")
    for name, text in files.items():
        machine.put(f"{directory}/{name}", text + "\n")
    Path(machine.path(f"{directory}/config")).write_bytes(space)
    machine.link(f"/sys/bus/pci/devices/{where.rpartition('/')[2]}", directory)


def _put(space: bytearray, offset: int, value: int) -> None:
    space[offset : offset + 4] = value.to_bytes(4, "little")
