"""How RoCE packets of an RDMA device are marked. Runs on the node.

Sources: Linux drivers/infiniband/core/cma_configfs.c; MLNX_OFED's tc/<port>/traffic_class.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from collections.abc import Iterator

from ..machine import Machine, NodeError
from ..plan import RUNNING, Change, Plan, Refused
from .description import Description

CM = "/sys/kernel/config/rdma_cm"
LOCK = "/run/rdmaprov/rdma_cm.lock"
_PREFIX = "Global tclass="


def plan_marking(plan: Plan, rdma: str, wanted: Description) -> None:
    """Plan what rdma_cm and the driver put into packets."""
    settings = [
        ("default_roce_mode", "RoCE version of rdma_cm", wanted.rdma_cm_mode),
        ("default_roce_tos", "ToS of rdma_cm", str(wanted.tos)),
    ]
    loaded = plan.machine.exists(CM)
    for name, setting, value in settings:
        seen = _seen_cm(plan.machine, rdma, name) if loaded else "rdma_cm is not loaded"
        if seen != value:
            _set_cm(plan, rdma, name, Change(RUNNING, rdma, setting, seen, value))
    _plan_traffic_class(plan, rdma, wanted)


def _seen_cm(machine: Machine, rdma: str, name: str) -> str:
    what = f"{CM}/{rdma}/ports/1/{name}"
    value: str = machine.ask(what, lambda: _read_cm(machine, rdma, name))
    return value


def _read_cm(machine: Machine, rdma: str, name: str) -> str:
    with _rdma_cm_directory(machine, rdma):
        value = machine.value(f"{CM}/{rdma}/ports/1/{name}")
    if value is None:
        raise NodeError(f"{rdma}: there is no {CM}/{rdma}/ports/1/{name}")
    return value


def _set_cm(plan: Plan, rdma: str, name: str, change: Change) -> None:
    machine = plan.machine

    def do() -> None:
        if not machine.exists(CM):
            machine.run(["modprobe", "rdma_cm"])
        with _rdma_cm_directory(machine, rdma):
            machine.set(f"{CM}/{rdma}/ports/1/{name}", change.wanted)

    plan.add(change, do)


@contextlib.contextmanager
def _rdma_cm_directory(machine: Machine, rdma: str) -> Iterator[None]:
    """Have rdma_cm's directory of a device for a while.

    The kernel keeps the values without it. With it, nobody can unload rdma_cm, so that a
    restart of the drivers would fail.
    """
    path = machine.path(f"{CM}/{rdma}")
    lock_path = machine.path(LOCK)
    os.makedirs(os.path.dirname(lock_path), exist_ok=True)
    with open(lock_path, "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            os.mkdir(path)
            made = True
        except FileExistsError:
            made = False
        except OSError as error:
            raise NodeError(f"{CM}/{rdma} cannot be made: {error.strerror}") from error
        try:
            yield
        finally:
            if made:
                os.rmdir(path)


def _plan_traffic_class(plan: Plan, rdma: str, wanted: Description) -> None:
    """Plan the traffic class that the vendor's driver gives every packet.

    It beats what NCCL asks for, so one that somebody set is taken away unless it is ours.
    """
    machine, path = plan.machine, f"/sys/class/infiniband/{rdma}/tc/1/traffic_class"
    text = machine.read(path)
    if text is None:
        if wanted.force_traffic_class:
            raise Refused(
                f"{rdma}: there is no {path}, which only the vendor's driver has: write "
                "roce_qos_force_traffic_class: false"
            )
        return
    seen = _global(text)
    value = str(wanted.tos)
    plan.warnings += [
        f"{rdma}: {path} has a rule for some packets, which overrides what NCCL asks for: {line}"
        for line in text.splitlines()
        if not line.startswith(_PREFIX) and re.search(r"tclass=(?!" + value + r"\b)\d", line)
    ]
    if seen == value or (not seen and not wanted.force_traffic_class):
        return
    change = Change(
        RUNNING,
        rdma,
        "forced traffic class",
        seen or "none",
        value if wanted.force_traffic_class else "none",
    )
    plan.add(change, lambda: machine.set(path, value if wanted.force_traffic_class else "-1"))


def _global(text: str) -> str:
    """Return the traffic class of all packets; rules for some of them may follow it."""
    for line in text.splitlines():
        if line.startswith(_PREFIX):
            return line[len(_PREFIX) :].strip()
    return ""


def require_agreement(wanted: Description, nccl: int) -> None:
    """Refuse to force another traffic class than the site tells NCCL to use."""
    if wanted.force_traffic_class and nccl != wanted.tos:
        raise Refused(
            f"roce_qos_force_traffic_class: roce_qos_tos is {wanted.tos} and nccl_ib_tc {nccl}, "
            "and the first overrides the second: write the same, or remove both lines"
        )
