"""Who uses a node's RDMA devices and GPUs: what a change that interrupts traffic would hit.

Runs on the node, as root. Open files are read from /proc, so no program is needed. /dev/nvidiactl,
/dev/infiniband/umad and /dev/infiniband/rdma_cm do not count: monitoring, subnet managers and
listeners have them open, and no queue pair or GPU memory comes with them.
"""

from __future__ import annotations

import json
import os
import pwd
import re
from collections.abc import Iterator
from typing import Any

from . import storage
from .machine import Machine, NodeError

# The module's arguments, beside its role's.
FORCE_ARGUMENT: dict[str, dict[str, Any]] = {
    "force_busy": {"type": "bool", "default": False},
    "standing_processes": {"type": "list", "elements": "str", "default": []},
}
# A container's own /dev may have its root in front.
_DEVICE = re.compile(r"/dev/(?:infiniband/uverbs\d+|nvidia\d+|nvidia-uvm|kfd|dri/renderD\d+)$")
# Programs that have devices open on a node that runs no job, by the end of their file's path, as a
# process chooses its own name; and where that was seen or is said.
_STANDING = {
    "nvidia-persistenced": "it keeps GPUs initialized: NVIDIA/gpu-operator issue 118",
    "nv-hostengine": "DCGM's monitor: IBM/CAST issue 551",
    "dcgm-exporter": "DCGM's monitor: kubernetes-sigs/dra-driver-nvidia-gpu issue 1076",
    "nv-fabricmanager": "it runs NVSwitch: what nvidia-smi --gpu-reset says where it refuses",
    "nvidia-imex": "it shares memory between nodes: NVIDIA/ai-cloud-validation pull request 603",
    "nvidia-device-plugin": "it watches GPUs: NVIDIA/k8s-device-plugin internal/rm/health.go",
    "rdcd": "ROCm's monitor: rocm.docs.amd.com/projects/rdc",
    "ibacm": "it resolves addresses: linux-rdma/rdma-core ibacm/src/acm.c, acm_open_dev",
    "nvsm_core": "DGX's monitor: NVIDIA/mig-parted deployments/systemd/utils-custom.sh",
    "gpud": "a monitor that keeps NVML open: leptonai/gpud pkg/nvidia-query/nvml/instance.go",
    "cm/local/apps/cmd/sbin/cmd": "BCM's monitor of GPUs: NVIDIA's BCM administrator manual",
    "slurmd": "it reads AMD GPUs' energy: SchedMD/slurm src/plugins/gpu/rsmi/gpu_rsmi.c",
    "Xorg": "a display: what nvidia-smi --gpu-reset says where it refuses",
}
_MOST_DEVICES = 2  # that are named, of one process
_MOST_NAMED = 3
_MOST_LISTED = 16
_STANDS = "standing: "  # before the name of one of them


class Busy(NodeError):
    """A change would interrupt what somebody runs on the node."""


def users(machine: Machine) -> list[str]:
    """Return who uses the RDMA devices and GPUs, one line each; none on an idle node."""
    return look(machine)[0]


def look(machine: Machine) -> tuple[list[str], list[str]]:
    """Return who uses them, one line each, and the standing programs that do and do not count.

    That is each other process, then what the kernel uses. Where it is unknown, a line says so.
    """
    try:
        processes = machine.ask("users of devices", lambda: list(_processes(machine)))
        found = [each for each in processes if not each.startswith(_STANDS)] + _kernel(machine)
    except (NodeError, OSError) as error:
        return [_plain(f"unknown, because of: {error}")], []
    standing = sorted({_plain(each) for each in processes if each.startswith(_STANDS)})
    rest = len(found) - _MOST_LISTED
    return found[:_MOST_LISTED] + ([f"{rest} more"] if rest > 0 else []), standing[:_MOST_LISTED]


def rdma_contexts(machine: Machine) -> str:
    """Return which RDMA device has a context or a connection, of any program or of the kernel's.

    Standing daemons too: they keep a driver from being unloaded. Empty for none.
    """
    if not machine.names("/sys/class/infiniband"):
        return ""
    if not machine.has("rdma"):
        return "rdma (iproute2) is not installed, so it is unknown whether an RDMA device is in use"
    for device in json.loads(machine.run(["rdma", "-j", "resource", "show"]) or "[]"):
        if "ctx" not in device:
            return "this kernel does not show whether programs use {}".format(device["ifname"])
        if device["ctx"] or device.get("cm_id"):
            return "{ifname} is in use ({ctx} contexts, {cm_id} connections)".format(
                **{"cm_id": 0, **device}
            )
    return ""


def refuse(machine: Machine, interrupts: list[str]) -> None:
    """Refuse changes that interrupt traffic on a busy node; raise Busy if somebody uses it."""
    found = users(machine) if interrupts else []
    if found:
        raise Busy(refusal(found, interrupts))


def refusal(found: list[str], interrupts: list[str]) -> str:
    """Return why a busy node is not changed, and what to do."""
    return (
        f"busy: {some(found, _MOST_NAMED)}. It would be interrupted: {some(interrupts, 1)}. "
        "Drain the node, or pass --force-busy"
    )


def _processes(machine: Machine) -> Iterator[str]:
    hidden = []
    for pid in sorted(int(name) for name in machine.names("/proc") if name.isdigit()):
        if pid == os.getpid():
            continue
        try:
            devices, program = _devices(machine, pid), _link(machine, f"/proc/{pid}/exe")
        except PermissionError:
            hidden.append(pid)
            continue
        if not devices:
            continue
        command, user = _text(machine, f"/proc/{pid}/comm").strip(), _user(machine, pid)
        if name := _standing(machine, program, command, user):
            yield _STANDS + name
        else:
            named = f"pid {pid} of {user}, {command or 'an unknown command'}"
            yield _plain(f"{named}: {some(devices, _MOST_DEVICES)}")
    if hidden:
        pids = some([str(pid) for pid in hidden], _MOST_DEVICES)
        yield f"unknown: the open files of pid {pids} cannot be read (/proc/{hidden[0]}/fd)"


def _standing(machine: Machine, program: str, command: str, user: str) -> str:
    """Return which standing program a process is, a script of root's by its own name, or none."""
    for name in filter(None, (*_STANDING, *machine.standing)):
        is_script = user == "root" and command == name[:15]  # all that comm has [proc(5)]
        if is_script or f"/{program}".endswith("/" + name.lstrip("/")):
            return name
    return ""


def _devices(machine: Machine, pid: int) -> list[str]:
    """Return the devices that a process has open; none if it ended meanwhile."""
    directory = f"/proc/{pid}/fd"
    try:
        names = machine.names(directory)
    except ProcessLookupError:
        return []
    found = [_DEVICE.search(_link(machine, f"{directory}/{name}")) for name in names]
    return sorted({each[0] for each in found if each})


def _link(machine: Machine, name: str) -> str:
    """Return what a link of /proc says, also one that leads nowhere; empty if it is gone."""
    try:
        return os.readlink(machine.path(name)).replace(" (deleted)", "")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _user(machine: Machine, pid: int) -> str:
    found = re.search(r"^Uid:\s+(\d+)", _text(machine, f"/proc/{pid}/status"), re.MULTILINE)
    if not found:
        return "an unknown user"
    try:
        return pwd.getpwuid(int(found[1])).pw_name
    except KeyError:
        return f"user {found[1]}"  # of a container


def _text(machine: Machine, name: str) -> str:
    """Return a file's text, empty if its process ended meanwhile."""
    try:
        return machine.read(name) or ""
    except NodeError:
        return ""


def _kernel(machine: Machine) -> list[str]:
    """Return what the kernel uses RDMA for."""
    named = [f"{what}: {netdev}" for netdev, what in storage.rdma_users(machine)]
    return [_plain(each) for each in [*storage.over_rdma(machine), *named]]


def _plain(text: str) -> str:
    """Return a text on one line; a process chooses its own name."""
    one = " ".join(text.split())
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in one)


def some(texts: list[str], most: int) -> str:
    """Return the first texts, and how many more there are."""
    rest = len(texts) - most
    return ", ".join(texts[:most]) + (f" and {rest} more" if rest > 0 else "")
