"""The locked memory of logins: pam_limits and its files. Runs on the node."""

from __future__ import annotations

import re

from ..machine import Machine
from ..plan import Plan, Refused
from .memlock import Memlock, of_pam

DIRECTORY = "/etc/security/limits.d"
DROP_IN = DIRECTORY + "/99-rdmaprov-memlock.conf"
HEADER = "# Written by rdmaprov (limits); changes here are lost.\n"
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
            raise Refused(f"limits_memlock_users: {user!r} is no user, no @group and not *")
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
