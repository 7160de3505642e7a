"""The limits that RDMA runs into: locked memory, and kernel settings. Runs on the node.

Where Slurm's jobs have their limit from is said and not changed: slurm.conf is the cluster's. By
default it is the shell that submitted the job: man slurm.conf(5), PropagateResourceLimits.
"""

from __future__ import annotations

import os.path
import re
from typing import Any

from .. import sysctl
from ..limits import memlock, services
from ..limits.memlock import Memlock, of_pam
from ..machine import Machine
from ..plan import Plan, Refused

# slurmd of a cluster without files on its nodes links what it fetched; else it reads the file.
FILES = ("/run/slurm/conf/slurm.conf", "/etc/slurm/slurm.conf", "/etc/slurm-llnl/slurm.conf")
_SETTING = re.compile(r"\s*(propagateresourcelimits(?:except)?)\s*=\s*(\"[^\"]*\"|\S*)", re.I)
_INCLUDE = re.compile(r"\s*include\s+(\S+)\s*$", re.I)
_DEEPEST = 8
# Sorted after 99-sysctl.conf, by which distributions read /etc/sysctl.conf.
SYSCTL_FILE = "/etc/sysctl.d/99-z-rdmaprov-limits.conf"
HEADER = "# Written by rdmaprov (limits); changes here are lost.\n"


def warnings(machine: Machine) -> list[str]:
    """Return what keeps jobs from the node's limit, for a node on which slurmd is installed."""
    path = next((each for each in FILES if machine.exists(each)), None)
    if path is None:
        return []
    settings: dict[str, str] = {}
    _read(machine, path, settings, 0)
    exceptions = settings.get("propagateresourcelimitsexcept")
    if exceptions is not None:
        from_submitter = not _has_memlock(exceptions)
    else:
        from_submitter = _has_memlock(settings.get("propagateresourcelimits", "ALL"))
    if not from_submitter:
        return []
    return [
        f"{path}: jobs get the memlock limit of the shell that submits them, not this node's; "
        "on the controller of Slurm, write PropagateResourceLimitsExcept=MEMLOCK, then run: "
        "scontrol reconfigure"
    ]


def _has_memlock(names: str) -> bool:
    words = [name.upper().replace("RLIMIT_", "") for name in re.split(r"[,\s]+", names)]
    return "ALL" in words or "MEMLOCK" in words


def _read(machine: Machine, path: str, settings: dict[str, str], depth: int) -> None:
    """Take over what a file and those that it includes set; the last one counts."""
    for line in (machine.read(path) or "").replace("\\\n", " ").splitlines():
        code = line.partition("#")[0]
        setting, included = _SETTING.match(code), _INCLUDE.match(code)
        if setting is not None:
            settings[setting.group(1).lower()] = setting.group(2).strip('"')
        elif included is not None and depth < _DEEPEST:
            other = os.path.join(os.path.dirname(path), included.group(1))
            _read(machine, other, settings, depth + 1)


def plan(machine: Machine, arguments: dict[str, Any]) -> Plan:
    """Return what must change for the limits to hold, now and after a boot."""
    plan = Plan(machine)
    wanted = memlock.parse_memlock(arguments["memlock"])
    # Running first: what the kernel does not take never gets into a file that a boot reads.
    _sysctl(plan, {str(name): value for name, value in arguments["sysctl"].items()})
    logins(plan, arguments["memlock_users"], wanted)
    installed = services.services(plan, arguments["memlock_services"], wanted)
    if "slurmd.service" in installed:
        plan.warnings += warnings(machine)
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
    if machine.is_image:
        return  # its kernel does not run here
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


DIRECTORY = "/etc/security/limits.d"
DROP_IN = DIRECTORY + "/99-rdmaprov-memlock.conf"
# Those through which people and job launchers come in.
LOGINS = ("sshd", "login")
_DOMAIN = re.compile(r"\*|[@%]?[A-Za-z0-9_][A-Za-z0-9_.-]*\$?")
_SESSION = re.compile(r"-?session\s+(\[[^]]*\]|\S+)\s+(\S+)")


def logins(plan: Plan, users: list[str], memlock: Memlock) -> None:
    """Have these users' logins get the limit."""
    if not users:
        plan.absent(DROP_IN)
        return
    for user in users:
        if not _DOMAIN.fullmatch(user):
            raise Refused(f"limits_memlock_users: {user!r} is neither a user nor an @group nor *")
    _require_pam_limits(plan.machine)
    _refuse_later_lines(plan.machine, users, memlock)
    lines = [f"{user} {kind} memlock {memlock.pam}\n" for user in users for kind in _KINDS]
    plan.file(DROP_IN, HEADER + "".join(lines))


_KINDS = ("soft", "hard")


def _require_pam_limits(machine: Machine) -> None:
    """Refuse a node whose logins never read the limits."""
    for name in LOGINS:
        path = "/etc/pam.d/" + name
        if machine.exists(path) and not _loads_limits(machine, name, set()):
            raise Refused(
                f"{path} does not load pam_limits, so logins keep the limits of their daemon; "
                f"write in it: session required pam_limits.so"
            )


def _loads_limits(machine: Machine, name: str, seen: set[str]) -> bool:
    """Return whether a PAM stack has pam_limits, itself or in what it includes."""
    if name in seen:
        return False
    seen.add(name)
    for line in (machine.read("/etc/pam.d/" + name) or "").splitlines():
        words = line.split()
        if words[:1] == ["@include"] and len(words) > 1:
            included = words[1]
        else:
            found = _SESSION.match(line.strip())
            if found is None:
                continue
            if found[2].endswith("pam_limits.so"):
                return True
            if found[1] not in ("include", "substack"):
                continue
            included = found[2]
        if _loads_limits(machine, included.rpartition("/")[2], seen):
            return True
    return False


def _refuse_later_lines(machine: Machine, users: list[str], memlock: Memlock) -> None:
    """Refuse what pam_limits reads after our file and takes in its place.

    It reads files in the order of their names; of lines for the same users the last one counts.
    """
    for name in machine.names(DIRECTORY):
        path = f"{DIRECTORY}/{name}"
        if not name.endswith(".conf") or path <= DROP_IN:
            continue
        for number, line in enumerate((machine.read(path) or "").splitlines(), 1):
            words = line.partition("#")[0].split()
            if len(words) < 4 or words[0] not in users or words[2] != "memlock":
                continue
            if of_pam(words[3]) != memlock:
                raise Refused(
                    f"{path}:{number}: memlock of {words[0]} is {words[3]}, expected {memlock.pam}"
                    ", and this file overrides rdmaprov's; remove the line"
                )
