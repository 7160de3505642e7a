"""The GPU driver's peer memory module, which must fit the RDMA driver. Runs on the node.

Loading it fails with nothing but EINVAL if it was compiled before the RDMA driver was there, or
against another one: the symbol's checksum tells. [NVIDIA open-gpu-kernel-modules
kernel-open/nvidia-peermem/nvidia-peermem.c; NVIDIA/gpu-operator issue 2868]
"""

from __future__ import annotations

import re
from functools import partial

from ..machine import CommandFailed, Machine
from ..plan import CONFIGURED, Change, Plan
from . import dkms

SYMBOL = "ib_register_peer_memory_client"


def plan_rebuild(plan: Plan, kernels: list[str]) -> None:
    """Have DKMS's GPU driver compiled against the RDMA driver that is installed."""
    machine = plan.machine
    drivers = [each for each in dkms.sources(machine) if re.match(r"nvidia\b", each.name)]
    for kernel in kernels:
        wanted = _offered(machine, kernel)
        for driver in drivers:
            if not wanted or kernel not in driver.installed:
                continue
            seen = _used(machine, kernel)
            if seen is not None and seen != wanted:
                setting = f"{SYMBOL} of nvidia_peermem"
                change = Change(CONFIGURED, f"kernel {kernel}", setting, seen or "none", wanted)
                plan.add(change, partial(dkms.install, machine, driver, kernel, True))


def _offered(machine: Machine, kernel: str) -> str:
    """Return the checksum of the RDMA driver's symbol, empty if it has no such symbol."""
    arch = machine.run(["uname", "-m"]).strip()
    for directory in (f"{arch}/{kernel}", "default"):
        text = machine.read(f"/usr/src/ofa_kernel/{directory}/Module.symvers")
        if text is not None:
            found = re.search(rf"^(0x[0-9a-f]+)\s+{SYMBOL}\s", text, re.M)
            return found.group(1) if found else ""
    return ""


def _used(machine: Machine, kernel: str) -> str | None:
    """Return the checksum that nvidia_peermem has, empty if none, None without that module."""
    try:
        path = machine.run(["modinfo", "-k", kernel, "-F", "filename", "nvidia-peermem"]).strip()
    except CommandFailed as error:
        if "not found" in error.output:
            return None
        raise
    said = machine.run(["modprobe", "--dump-modversions", path])
    found = re.search(rf"^(0x[0-9a-f]+)\s+{SYMBOL}$", said, re.M)
    return found.group(1) if found else ""
