"""Whether this machine's KVM really runs guests: /dev/kvm may open and no kernel ever boot."""

import os
import subprocess
import tempfile
from enum import StrEnum

PROBE_TIMEOUT_S = 5.0
# A survey of all roles fills 96 MiB. With QEMU's default, a GiB, a machine that restarts drags the
# translated code of its last life along and boots three times slower (seen with QEMU 7.2: 130 s
# instead of 53 s).
TRANSLATED_CODE_MIB = 256
_EXIT_PORT = 0xF4
_EXIT_VALUE = 0x10
# KVM inside a virtual machine may emulate a guest's kernel instruction by instruction: firmware and
# boot loader pass, and the kernel takes an hour. A processor counts this far in milliseconds.
_COUNT = 20_000_000
# A boot sector that counts, then writes _EXIT_VALUE to QEMU's debug-exit port:
# `mov ecx, _COUNT; dec ecx; jnz -4; mov al; out; hlt; jmp $`.
_BOOT_SECTOR = (
    b"\x66\xb9"
    + _COUNT.to_bytes(4, "little")
    + b"\x66\x49\x75\xfc"
    + bytes([0xB0, _EXIT_VALUE, 0xE6, _EXIT_PORT, 0xF4, 0xEB, 0xFD])
).ljust(510, b"\0")
_BOOTED = (_EXIT_VALUE << 1) | 1  # how isa-debug-exit turns the value into an exit status


class Accel(StrEnum):
    """How QEMU runs a guest's processor."""

    KVM = "kvm"
    TCG = "tcg"

    @property
    def arguments(self) -> list[str]:
        """QEMU's arguments for it; the processor is the best that there is."""
        if self is Accel.KVM:
            return ["-accel", "kvm", "-cpu", "host"]
        return ["-accel", f"tcg,thread=multi,tb-size={TRANSLATED_CODE_MIB}", "-cpu", "max,la57=off"]


def boots(accel: Accel, timeout_s: float = PROBE_TIMEOUT_S) -> bool:
    """Return whether a guest runs its boot sector to the end, in time, with this acceleration."""
    with tempfile.NamedTemporaryFile(suffix=".img") as disk:
        disk.write(_BOOT_SECTOR + b"\x55\xaa")
        disk.flush()
        argv = ["qemu-system-x86_64", *accel.arguments, "-nodefaults", "-display", "none"]
        argv += ["-no-user-config", "-m", "16", "-drive", f"file={disk.name},format=raw"]
        argv += ["-device", f"isa-debug-exit,iobase={_EXIT_PORT:#x},iosize=1"]
        try:
            done = subprocess.run(argv, capture_output=True, timeout=timeout_s, check=False)
        except subprocess.TimeoutExpired:
            return False
    return done.returncode == _BOOTED


def detect() -> Accel:
    """Return KVM where it works, else TCG."""
    is_there = os.access("/dev/kvm", os.R_OK | os.W_OK)
    return Accel.KVM if is_there and boots(Accel.KVM) else Accel.TCG
