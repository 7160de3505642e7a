"""The subnet manager, on the nodes that the site names, and on no other. Runs on the node."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from .. import packages, systemd
from ..machine import Machine
from ..plan import CONFIGURED, RUNNING, Change, Plan, Refused
from ..subnet_manager import others, settings
from ..subnet_manager.port import Port, find
from ..subnet_manager.settings import FIRST_PRIORITY, HEADER, configuration, unit_name

# A program of each package; the vendor's packages have the same names.
_PACKAGES = {"opensm": "opensm", "sminfo": "infiniband-diags"}


def plan(machine: Machine, arguments: dict[str, Any]) -> Plan:
    """Return what must change for the node to manage the subnets that the site names.

    Raises:
        NotYet: a port is not there.
        Refused: a manager runs that is not the site's, or a setting cannot be.
    """
    plan = Plan(machine)
    hosts = tuple(arguments["hosts"])
    wanted = arguments["subnet_rails"] if arguments["node"] in hosts else []
    _retire(plan, [rail for rail in rails_with_unit(machine) if rail not in wanted])
    if not wanted:
        plan.absent(settings.PARTITIONS)
        plan.absent(settings.ROOTS)
        return plan
    priority = FIRST_PRIORITY - hosts.index(arguments["node"])
    if priority < 0:
        raise Refused(
            f"subnet_manager_hosts: at most {FIRST_PRIORITY + 1} hosts, one for each priority"
        )
    told = settings.parse(arguments)
    if len(hosts) == 1:
        text = "is the only manager: while it is down, no node joins the subnet"
        plan.warnings.append(f"subnet_manager_hosts: {hosts[0]} {text}. Name a second one")
    ports = [find(machine, arguments["rails"], rail) for rail in wanted]
    allowed = others.Allowed(
        hosts,
        frozenset(settings.guid(each, "subnet_manager_beside") for each in arguments["beside"]),
    )
    _mask(plan)
    _install(plan)
    _files(plan, told)
    for port in ports:
        prefix = str(arguments["rails"][port.rail].get("subnet_prefix") or "")
        _Manager(plan, port, allowed, priority).add(told, prefix)
    return plan


def _retire(plan: Plan, rails: list[int]) -> None:
    """End managers of ours that the site no longer names."""
    for rail in rails:
        (shown,) = show(plan.machine, [f"{settings.unit_name(rail)}.service"])
        if shown.is_active or shown.is_enabled:
            change = Change(RUNNING, shown.name, "unit", "running", "absent")
            plan.command(change, ["systemctl", "disable", "--now", shown.name])
        if shown.is_active:
            effect = "it ends; the next manager takes over and computes all routes again"
            plan.interrupt(f"subnet manager of rail {rail}", effect, "within seconds")
        plan.absent(path(rail))
        plan.absent(settings.configuration(rail))
    if rails:
        plan.then(["systemctl", "daemon-reload"])


def _mask(plan: Plan) -> None:
    """Keep the packages' own units from running: Debian's starts with its installation."""
    for shown in show(plan.machine, [*PACKAGED]):
        if shown.loaded != "masked":
            change = Change(CONFIGURED, shown.name, "unit", shown.loaded or "absent", "masked")
            plan.command(change, ["systemctl", "mask", shown.name])
        if shown.is_active:
            change = Change(RUNNING, shown.name, "unit", "running", "stopped")
            plan.command(change, ["systemctl", "stop", shown.name])
            effect = "it ends, and the role's manager takes over"
            plan.interrupt(f"subnet manager {shown.name}", effect, "within seconds")


def _install(plan: Plan) -> None:
    machine = plan.machine
    lacking = [name for program, name in _PACKAGES.items() if not machine.has(program)]
    if not lacking:
        return

    def do() -> None:
        manager = packages.of(machine)
        offers = {offer.name: offer for offer in reversed(manager.distribution(lacking))}
        absent = [name for name in lacking if name not in offers]
        if absent:
            raise Refused(f"{', '.join(absent)}: no repository of the node has it")
        lost = manager.lost_with([], list(offers.values()))
        if lost:
            raise Refused(f"{', '.join(lost)} would be removed with {', '.join(lacking)}")
        manager.change([], list(offers.values()))

    seen = "absent: " + ", ".join(lacking)
    plan.add(Change(CONFIGURED, "packages", "subnet manager", seen, "installed"), do)
    plan.is_long = True


def _files(plan: Plan, told: settings.Settings) -> None:
    plan.file(settings.PARTITIONS, told.partitions_text())
    if told.roots:
        plan.file(settings.ROOTS, told.roots_text())
    else:
        plan.absent(settings.ROOTS)


class _Manager:
    """The manager of one port."""

    def __init__(self, plan: Plan, port: Port, allowed: others.Allowed, priority: int) -> None:
        self._plan = plan
        self._machine = plan.machine
        self._port = port
        self._allowed = allowed
        self._priority = priority
        self._name = f"{settings.unit_name(port.rail)}.service"

    def add(self, told: settings.Settings, prefix: str) -> None:
        """Add what makes it run as it must, now and after a boot."""
        plan, rail = self._plan, self._port.rail
        configuration = told.text(self._port, self._priority, prefix)
        digest = told.digest(configuration)
        plan.file(settings.configuration(rail), configuration)
        is_new = plan.file(path(rail), text(self._port, digest))
        (shown,) = show(self._machine, [self._name])
        if is_new:
            plan.then(["systemctl", "daemon-reload"])
        elif shown.is_stale:
            change = Change(CONFIGURED, self._name, "unit's file", "changed and not read", "read")
            plan.command(change, ["systemctl", "daemon-reload"])
        if not shown.is_enabled:
            change = Change(CONFIGURED, self._name, "start at boot", "disabled", "enabled")
            plan.command(change, ["systemctl", "enable", self._name])
        self._run(shown, digest)

    def _run(self, shown: Unit, digest: str) -> None:
        """Have it run with this configuration; whoever else manages is read before.

        Read now, so that a plan says it, and again before the start: a package that brings sminfo
        comes with an earlier step.
        """
        found = self._look(shown) if self._machine.has("sminfo") else None
        runs = started_with(self._machine, shown.process)
        if shown.is_active and runs == (digest, self._port.guid):
            return
        seen = "started with another configuration" if shown.process else "not running"
        change = Change(RUNNING, self._name, "subnet manager", seen, "runs as configured")
        self._plan.add(change, lambda: self._start(shown))
        if found is None:
            return
        if found.guid == self._port.guid:
            self._say("the master restarts; the next manager computes all routes again")
            note = "it is the master. Apply to the standby managers first (--limit)"
            self._plan.notes.append(f"{self._name}: {note}")
        elif found.priority is not None and found.priority < self._priority:
            self._say(f"it takes over from priority {found.priority} and computes all routes again")

    def _say(self, effect: str) -> None:
        self._plan.interrupt(f"subnet manager of rail {self._port.rail}", effect, "within seconds")

    def _start(self, shown: Unit) -> None:
        self._look(shown)
        self._machine.run(["systemctl", "restart", self._name])

    def _look(self, shown: Unit) -> others.Other | None:
        """Return the master, if it may be one.

        This port's own GUID is the site's manager only if the unit runs, or a package's unit that
        is about to be stopped.
        """
        packaged = any(each.is_active for each in show(self._machine, [*PACKAGED]))
        own_runs = shown.is_active or packaged
        return others.refuse_strangers(self._machine, self._port, self._allowed, own_runs)


DIRECTORY = "/etc/systemd/system"
# Those of Debian and the Red Hat family, and of the vendor's packages. Debian's is started by its
# installation, on all ports.
PACKAGED = ("opensm.service", "opensmd.service")
_PROPERTIES = "Id,LoadState,ActiveState,UnitFileState,MainPID,NeedDaemonReload"
_MARK = re.compile(r"(?:^|\0)RDMAPROV_(CONFIGURATION|GUID)=(?:0x)?([0-9a-f]+)(?=\0|$)")
_OURS = re.compile(r"rdmaprov-opensm-rail(\d+)\.service")
# The cache is apart for each manager: the LIDs of one subnet are no other's [opensm(8),
# OSM_CACHE_DIR].
_TEXT = """\
[Unit]
Description=Subnet manager of rail {rail}, by rdmaprov
Documentation=man:opensm(8)
After=openibd.service rdma-load-modules@infiniband.service
StartLimitIntervalSec=0

[Service]
Type=exec
Environment=RDMAPROV_CONFIGURATION={digest}
Environment=RDMAPROV_GUID={guid:#018x}
Environment=OSM_CACHE_DIR=/var/cache/{name}
CacheDirectory={name}
LogsDirectory={name}
ExecStartPre=-/sbin/modprobe ib_umad
ExecStart=/usr/sbin/opensm -F {configuration}
Restart=always
RestartSec=5

[Install]
WantedBy=multi-user.target
"""


@dataclass(frozen=True)
class Unit:
    """A unit as the service manager knows it."""

    name: str
    loaded: str  # what LoadState says, such as loaded, masked, not-found
    is_active: bool
    is_enabled: bool
    process: int  # its main process, 0 if there is none
    is_stale: bool  # its file changed, and the service manager has not read it


def path(rail: int) -> str:
    """Return where a manager's unit is."""
    return f"{DIRECTORY}/{unit_name(rail)}.service"


def text(port: Port, digest: str) -> str:
    """Return a manager's unit.

    Args:
        digest: of its configuration. A process has it in its environment, and the port's GUID, so
            that it is known whether it was started with what the files say now.
    """
    return HEADER + _TEXT.format(
        rail=port.rail,
        digest=digest,
        guid=port.guid,
        name=unit_name(port.rail),
        configuration=configuration(port.rail),
    )


def show(machine: Machine, names: list[str]) -> list[Unit]:
    """Return units, also those that do not exist."""
    shown = systemd.show(machine, _PROPERTIES, names)
    return [_unit(name, shown[index]) for index, name in enumerate(names)]


def _unit(name: str, values: dict[str, str]) -> Unit:
    process = values.get("MainPID", "")
    return Unit(
        name,
        values.get("LoadState", ""),
        values.get("ActiveState") in ("active", "activating", "reloading"),
        values.get("UnitFileState") == "enabled",
        int(process) if process.isdecimal() else 0,
        values.get("NeedDaemonReload") == "yes",
    )


def started_with(machine: Machine, process: int) -> tuple[str, int]:
    """Return the digest and the GUID with which a process was started; "" and 0 if unknown."""
    environment = machine.read(f"/proc/{process}/environ") if process else None
    found = dict(_MARK.findall(environment or ""))
    return found.get("CONFIGURATION", ""), int(found.get("GUID", "0"), 16)


def rails_with_unit(machine: Machine) -> list[int]:
    """Return the rails that have a unit of ours."""
    found = [_OURS.fullmatch(name) for name in machine.names(DIRECTORY)]
    return [int(each[1]) for each in found if each]
