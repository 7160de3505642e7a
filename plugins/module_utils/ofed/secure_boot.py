"""Whether a kernel takes modules that nobody it trusts has signed. Runs on the node."""

from __future__ import annotations

from ..machine import CommandFailed, Machine
from ..plan import Refused

_VARIABLE = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
_ENFORCED = "/sys/module/module/parameters/sig_enforce"
_LOCKDOWN = "/sys/kernel/security/lockdown"
# Where DKMS, and Ubuntu's DKMS, keep the certificate of the key that they sign modules with.
_CERTIFICATES = ("/var/lib/shim-signed/mok/MOK.der", "/var/lib/dkms/mok.pub")


def required_by(machine: Machine) -> str:
    """Return what makes the kernel refuse unsigned modules, empty if nothing does."""
    variable = machine.read(_VARIABLE)
    # Four bytes of attributes, then the value. [Linux Documentation/filesystems/efivarfs.rst]
    if variable is not None and variable[4:5] == "\x01":
        return "Secure Boot is on"
    if (machine.value(_ENFORCED) or "N") == "Y":
        return f"the kernel enforces signatures ({_ENFORCED})"
    lockdown = machine.value(_LOCKDOWN) or ""
    if "[integrity]" in lockdown or "[confidentiality]" in lockdown:
        return f"the kernel is locked down ({_LOCKDOWN})"
    return ""


def refuse_unsigned(machine: Machine, what: str) -> None:
    """Refuse modules that are compiled here where the kernel would not load them.

    Raises:
        Refused: it would not, and the message says what to sign them with, and how.
    """
    why = required_by(machine)
    if not why:
        return
    key = next((path for path in _CERTIFICATES if machine.exists(path)), "")
    start = f"{why}, and {what} compiles its modules on the node: mlx5_core and the others must be "
    if not key:
        raise Refused(
            f"{start}signed with a key of the node's own, and there is none ({_CERTIFICATES[1]}). "
            "Run on the node: dkms generate_mok (Ubuntu: update-secureboot-policy --new-key), then "
            f"{enroll(_CERTIFICATES[1])}; or write ofed_source: inbox"
        )
    if not _is_enrolled(machine, key):
        raise Refused(
            f"{start}signed with {key}, which the firmware does not know. "
            f"Run on the node: {enroll(key)}; or write ofed_source: inbox"
        )


def enroll(key: str) -> str:
    """Return how a key becomes known to the firmware."""
    return f"mokutil --import {key}, reboot, and choose Enroll MOK at the console"


def _is_enrolled(machine: Machine, key: str) -> bool:
    """Return what mokutil says; its exit code differs between versions."""
    try:
        said = machine.run(["mokutil", "--test-key", key])
    except CommandFailed as error:
        said = error.output
    return "is already enrolled" in said
