"""The unit of a subnet manager, and what it shows of the process that runs. Runs on the node."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .. import systemd
from ..machine import Machine
from .port import Port
from .settings import HEADER, configuration, unit_name

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
    """A unit as the service manager knows it.

    Args:
        loaded: what LoadState says, such as loaded, masked, not-found.
        process: its main process, 0 if there is none.
        is_stale: its file changed, and the service manager has not read it.
    """

    name: str
    loaded: str
    is_active: bool
    is_enabled: bool
    process: int
    is_stale: bool


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
