"""A GPU node with OFED, and the arguments that the role peermem gets."""

from typing import Any

import pytest
from plugins.module_utils.machine import CommandFailed
from tests.roles.fake import FakeMachine

FILE = "/etc/modules-load.d/rdmaprov-peermem.conf"
LOADED = "/sys/module/nvidia_peermem/initstate"
CLIENT = "/sys/kernel/mm/memory_peers/nv_mem/version"
SYMBOLS = "0000000000000000 T ib_register_peer_memory_client\t[ib_core]\n"
VERSION = "/proc/driver/nvidia/version"
NOT_FOUND = CommandFailed(["modinfo"], 1, "modinfo: ERROR: Module nvidia not found.")


def with_gpu(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> FakeMachine:
    machine.nic("ens1", pci="0000:18:00.0", rdma="mlx5_0")
    machine.put("/sys/bus/pci/devices/0000:1b:00.0/vendor", "0x10de\n")
    machine.put("/sys/bus/pci/devices/0000:1b:00.0/class", "0x030200\n")
    machine.put("/proc/sys/kernel/osrelease", "6.8.0-45-generic\n")
    machine.put("/proc/kallsyms", SYMBOLS)
    machine.put("/sys/module/ib_core/refcnt", "3\n")
    machine.put(VERSION, "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05\n")

    def load(argv: list[str]) -> str:  # noqa: ARG001
        machine.put(LOADED, "live\n")
        machine.put(CLIENT, "580.95.05\n")
        return ""

    machine.programs = {
        "modinfo -F version nvidia_peermem": "580.95.05\n",
        "modinfo -F license nvidia": NOT_FOUND,
        "modinfo -F srcversion ib_core": "\n",
        "modprobe nvidia_peermem": load,
        "dmesg": "[    1.0] old: disagrees about version of symbol\n",
    }
    answer(monkeypatch, "")
    return machine


def answer(monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    """Have the NICs' driver answer to a registration of dma-buf memory."""
    monkeypatch.setattr("plugins.module_utils.peermem.dmabuf.dmabuf_obstacle", lambda _: said)


def arguments(mode: str = "nvidia-peermem", **changed: object) -> dict[str, Any]:
    given = {"rails": [{"netdev": "ens1"}], "mode": mode, "gpu_module": ""}
    return {**given, "gpu_persistence": "keep", **changed}
