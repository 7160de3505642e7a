"""What a boot reads of the role pcie: a description, our program, and what starts it.

Runs on the node. All of it is lost at a reboot, and most of it when a driver is loaded again.
"""

from __future__ import annotations

import json
from typing import Any

from .. import machine, netdevs, pci, rails, shipped, sysctl, systemd
from .. import plan as plans
from ..plan import CONFIGURED, Change, Plan, Refused
from . import apply, interrupts, running

DESCRIPTION = "/etc/rdmaprov/pcie.json"
UNIT = "rdmaprov-pcie.service"
PATH = f"/etc/systemd/system/{UNIT}"
LINKS = "/etc/systemd/system/multi-user.target.wants"
RULE = "/etc/udev/rules.d/99-rdmaprov-pcie.rules"
# The program is the last.
MODULES = (machine, plans, netdevs, rails, pci, interrupts, running, apply)
# What the program needs to know; the kernel's command line is read by the boot loader.
DESCRIBED = (
    "rails",
    "max_read_request_bytes",
    "acs_redirect",
    "numa_balancing",
    "irq_affinity",
    "cpu_governor",
)
_UNIT = """\
# Written by rdmaprov (pcie); changes here are lost.
[Unit]
Description=Set what a boot loses on the path between GPU and NIC
After=systemd-sysctl.service network.target tuned.service cpupower.service cpufrequtils.service
Before={jobs}
# Started anew for each network device that appears.
StartLimitIntervalSec=0

[Service]
Type=oneshot
ExecStart={command} {description}

[Install]
WantedBy=multi-user.target
"""
_RULE = """\
# Written by rdmaprov (pcie); changes here are lost.
# A driver that is loaded again starts with its own settings. A device that udev gives another name
# is there for systemd after the move.
ACTION!="add|move", GOTO="rdmaprov_pcie_end"
SUBSYSTEM=="{class_}", SUBSYSTEMS=="pci", TAG+="systemd", ENV{{SYSTEMD_WANTS}}+="{unit}"
LABEL="rdmaprov_pcie_end"
"""


def at_boot(plan: Plan, arguments: dict[str, Any], found: list[rails.Rail]) -> None:
    """Have a boot, and a driver that is loaded again, set what the description says.

    A port of InfiniBand may have no network device that appears, only its RDMA device.

    Raises:
        Refused: another file sets something else.
    """
    _refuse_sysctl(plan, arguments["numa_balancing"])
    described = {name: arguments[name] for name in DESCRIBED}
    described["rails"] = [rails.named_by(rail) for rail in arguments["rails"]]
    class_ = "net" if all(rail.netdev for rail in found) else "net|infiniband"
    unit = _UNIT.format(
        command=shipped.command(plan.machine, "pcie"), description=DESCRIPTION, jobs=systemd.JOBS
    )
    # The unit last: what starts has all it needs.
    shipped.ship(plan, "pcie", MODULES)
    plan.file(DESCRIPTION, json.dumps(described, indent=2, sort_keys=True) + "\n")
    if plan.file(PATH, unit):
        plan.then(["systemctl", "daemon-reload"])
    if UNIT not in plan.machine.names(LINKS):
        change = Change(CONFIGURED, UNIT, "start at boot", "disabled", "enabled")
        plan.command(change, ["systemctl", "enable", UNIT])
    plan.file(RULE, _RULE.format(unit=UNIT, class_=class_))


def _refuse_sysctl(plan: Plan, wanted: str) -> None:
    """Refuse a line for sysctl that sets another value: each `sysctl --system` would undo ours."""
    line = sysctl.at_boot(plan.machine).get(sysctl.path_of("kernel.numa_balancing"))
    if wanted == "keep":
        return
    if line is not None and (line.value != "0") != (wanted == "on"):
        raise Refused(
            f"{line.file}:{line.line}: sets kernel.numa_balancing to {line.value}, expected "
            f"{int(wanted == 'on')} (pcie_numa_balancing); remove the line"
        )
