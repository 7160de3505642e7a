"""The limits that RDMA runs into: locked memory, and kernel settings. Runs on the node."""

from __future__ import annotations

import re
from typing import Any

from .. import sysctl
from ..limits import memlock, pam, services, slurm
from ..machine import Machine
from ..plan import Plan, Refused

# Sorted after 99-sysctl.conf, by which distributions read /etc/sysctl.conf.
SYSCTL_FILE = "/etc/sysctl.d/99-z-rdmaprov-limits.conf"
HEADER = "# Written by rdmaprov (limits); changes here are lost.\n"


def plan(machine: Machine, arguments: dict[str, Any]) -> Plan:
    """Return what must change for the limits to hold, now and after a boot."""
    plan = Plan(machine)
    wanted = memlock.parse_memlock(arguments["memlock"])
    # Running first: what the kernel does not take never gets into a file that a boot reads.
    _sysctl(plan, {str(name): value for name, value in arguments["sysctl"].items()})
    pam.logins(plan, arguments["memlock_users"], wanted)
    installed = services.services(plan, arguments["memlock_services"], wanted)
    if "slurmd.service" in installed:
        plan.warnings += slurm.warnings(machine)
    return plan


def _sysctl(plan: Plan, settings: dict[str, Any]) -> None:
    texts = {name: _text(name, value) for name, value in settings.items()}
    for name, value in texts.items():
        _check_form(plan.machine, name, value)
        plan.kernel_value(sysctl.path_of(name), value, "kernel", name)
    if not texts:
        plan.absent(SYSCTL_FILE)
        return
    text = HEADER + "".join(f"{name} = {value}\n" for name, value in sorted(texts.items()))
    _refuse_overrides(plan.machine, texts, text)
    plan.file(SYSCTL_FILE, text)


def _text(name: str, value: Any) -> str:
    if isinstance(value, (bool, list, dict)) or value is None:
        raise Refused(f"limits_sysctl: {name} needs a number or a text, as sysctl prints it")
    text = str(value).strip()
    if not text or not text.isprintable():
        raise Refused(f"limits_sysctl: {name} needs a text of one line")
    return text


def _check_form(machine: Machine, name: str, value: str) -> None:
    """Refuse another number of values than the kernel has: it would set only the first ones.

    Published guides have such lines for ip_local_port_range and tcp_rmem.
    """
    seen = (machine.value(sysctl.path_of(name)) or "").split()
    if len(seen) < 2 or not all(re.fullmatch(r"-?\d+", word) for word in seen):
        return
    if len(value.split()) != len(seen):
        raise Refused(
            f"limits_sysctl: {name} has {len(seen)} values, and '{value}' does not match; "
            f"write for example '{' '.join(seen)}'"
        )


def _refuse_overrides(machine: Machine, texts: dict[str, str], own: str) -> None:
    """Refuse what a boot sets after our file, which would undo it."""
    found = sysctl.at_boot(machine, {SYSCTL_FILE: own})
    for name, value in texts.items():
        last = found[sysctl.path_of(name)]
        if last.value.split() != value.split():
            raise Refused(
                f"{last.file}:{last.line}: sets {name} to {last.value} at boot, expected {value}, "
                "and overrides rdmaprov's file; remove the line"
            )
