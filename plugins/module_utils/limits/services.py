"""The locked memory of systemd services: drop-ins, and daemons that run. Runs on the node.

A daemon that runs gets its limit by prlimit, which disturbs nothing: a restart of slurmd,
kubelet or containerd could cost jobs. What it starts from then on inherits the limit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .. import systemd
from ..machine import Machine, NodeError
from ..plan import CONFIGURED, RUNNING, Change, Plan, Refused
from .memlock import Memlock

DIRECTORY = "/etc/systemd/system"
DROP_IN = "99-rdmaprov-memlock.conf"
HEADER = "# Written by rdmaprov (limits); changes here are lost.\n"
_PROPERTIES = "Id,LoadState,MainPID,LimitMEMLOCK,LimitMEMLOCKSoft,NeedDaemonReload,DropInPaths"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9:_.@-]*")
_NO_LIMIT = ("infinity", str((1 << 64) - 1))


@dataclass(frozen=True)
class Service:
    """A service that is installed, as the service manager knows it.

    Args:
        unit: its name; an alias has the name of what it stands for.
        process: its main process, 0 if it does not run.
        limits: what it is started with, soft and hard.
        stale: files changed that the service manager has not read.
    """

    unit: str
    process: int
    limits: tuple[str, str]
    stale: bool
    drop_ins: str


def services(plan: Plan, names: list[str], memlock: Memlock) -> list[str]:
    """Have those of the services that are installed get the limit, now and at each start.

    Return their units.
    """
    found = _installed(plan.machine, names)
    text = HEADER + f"[Service]\nLimitMEMLOCK={memlock.systemd}\n"
    ours = {f"{DIRECTORY}/{service.unit}.d/{DROP_IN}" for service in found}
    written = [plan.file(path, text) for path in sorted(ours)]
    written += [plan.absent(path) for path in _ours(plan.machine) if path not in ours]
    if any(written):
        plan.then(["systemctl", "daemon-reload"])
    elif not plan.machine.is_image:
        _plan_reload(plan, found, memlock)
    for service in found:
        _running(plan, service, memlock)
    return [service.unit for service in found]


def _installed(machine: Machine, names: list[str]) -> list[Service]:
    for name in names:
        if not _NAME.fullmatch(name):
            raise Refused(f"limits_memlock_services: {name!r} is not the name of a service")
    if not names:
        return []
    units = [name if name.endswith(".service") else name + ".service" for name in names]
    found: dict[str, Service] = {}
    for values in systemd.show(machine, _PROPERTIES, units):
        if values.get("LoadState") == "loaded":
            found[values["Id"]] = _service(values)
    return list(found.values())


def _service(values: dict[str, str]) -> Service:
    limits = (_limit(values["LimitMEMLOCKSoft"]), _limit(values["LimitMEMLOCK"]))
    stale = values["NeedDaemonReload"] == "yes"
    process = int(values["MainPID"])
    return Service(values["Id"], process, limits, stale, values.get("DropInPaths", ""))


def _limit(text: str) -> str:
    return "unlimited" if text in _NO_LIMIT else text


def _ours(machine: Machine) -> list[str]:
    return [
        f"{DIRECTORY}/{name}/{DROP_IN}"
        for name in machine.names(DIRECTORY)
        if name.endswith(".service.d") and machine.exists(f"{DIRECTORY}/{name}/{DROP_IN}")
    ]


def _plan_reload(plan: Plan, found: list[Service], memlock: Memlock) -> None:
    """Have the service manager know what the files say."""
    stale = False
    for service in found:
        if service.limits == (memlock.kernel, memlock.kernel):
            continue
        seen = "{} soft, {} hard".format(*service.limits)
        if not service.stale:
            raise Refused(
                f"{service.unit}: LimitMEMLOCK is {seen}, expected {memlock.systemd}; a file after "
                f"{DROP_IN} sets it, remove it there: {service.drop_ins}"
            )
        change = Change(CONFIGURED, service.unit, "LimitMEMLOCK", seen, memlock.systemd)
        if not stale:
            plan.command(change, ["systemctl", "daemon-reload"])
        stale = True


def _running(plan: Plan, service: Service, memlock: Memlock) -> None:
    if not service.process:
        return
    path = f"/proc/{service.process}/limits"
    found = re.search(r"^Max locked memory\s+(\S+)\s+(\S+)", plan.machine.read(path) or "", re.M)
    if found is None:
        raise NodeError(f"{service.unit}: {path} shows no limit of locked memory; did it restart?")
    if found.groups() == (memlock.kernel, memlock.kernel):
        return
    seen = "{} soft, {} hard".format(*found.groups())
    plan.command(
        Change(RUNNING, service.unit, "locked memory", seen, memlock.kernel),
        ["prlimit", f"--pid={service.process}", f"--memlock={memlock.kernel}:{memlock.kernel}"],
    )
