"""A role's long steps as a transient unit of systemd, which no connection has to last for.

Runs on the node. A module that would install packages, say, starts a unit that does it, from a copy
of the module's own archive, and ends; the next call of the role by the same run asks for the
result. The unit holds the node's lock, so nobody else changes the node meanwhile. All its files are
below /run, which a reboot empties, and go with the result. No value of a request is on the unit's
command line: requests hold secrets, and systemd expands `%` and `$`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import sys
from dataclasses import dataclass
from typing import Any

from . import systemd
from .guard import connection
from .lock import Held, read_record
from .machine import Machine, NodeError

STEPS = "/run/rdmaprov/steps"
BOOTED = "/run/systemd/system"  # sd_booted(3)
# As tuning.py says of a task: a node that has not ended after this long never will.
LIMIT_S = 4 * 3600
_REQUEST, _ENVIRONMENT, _ARCHIVE = "request.json", "environment.json", "module.zip"
_PROGRAM, _RESULT = "program.py", "result.json"
# By it, an interrupted program ends its processes on the controller, which may be the node.
_MARK = "RDMAPROV_RUN"
_PLAIN = re.compile(r"[\w./+-]+")
# The environment of the module: proxies, HOME, and the ssh connection, by which the management path
# is found in /proc.
_CODE = """\
import json
import os
import sys

here = os.path.dirname(os.path.abspath(__file__))
if len(sys.argv) == 1:
    with open(here + "/{environment}") as file:
        environment = json.load(file)
    os.unlink(here + "/{environment}")
    os.execve(sys.executable, [sys.executable, "-I", __file__, "go"], environment)
sys.path.insert(0, here + "/{archive}")
from {package}.converge import run_step

run_step(here)
"""
_SHOWN = "ActiveState,Result,ExecMainStatus"
_AT_WORK = ("active", "activating", "reloading", "deactivating")
_REASONS = {
    "timeout": f"it took more than {LIMIT_S // 3600} hours",
    "oom-kill": "the kernel killed it: out of memory",
    "exit-code": "its program ended with exit status {status}",
    "signal": "signal {status} killed it",
    "core-dump": "signal {status} killed it",
    "success": "something on the node stopped it",
}


@dataclass(frozen=True)
class LongStep:
    """The unit of one role in one run."""

    machine: Machine
    role: str
    run: str

    @property
    def unit(self) -> str:
        """Return the unit's name."""
        return f"rdmaprov-step-{self._name}.service"

    @property
    def _name(self) -> str:
        return f"{self.role}-{_digest(self.run)}"

    @property
    def _place(self) -> str:
        return f"{STEPS}/{self._name}"

    def answer(self) -> dict[str, Any] | None:
        """Return what the unit answered, once, or that it runs; None if there is no unit."""
        if not self.machine.exists(self._place):
            return None
        seen = _state(self.machine, self.unit)
        text = self.machine.read(f"{self._place}/{_RESULT}")
        if text is None and seen["ActiveState"] in _AT_WORK:
            return {"changed": False, "running": True}
        _forget(self.machine, self._name)
        if text is not None:
            found: dict[str, Any] = json.loads(text)
            return found
        why = _REASONS.get(seen["Result"], f"systemd ended it: {seen['Result']}")
        why = why.format(status=seen["ExecMainStatus"])
        return {"failed": True, "msg": f"{why} (journalctl -u {self.unit})"}

    def start(self, request: dict[str, Any]) -> None:
        """Have the unit carry out the request; raise NodeError if systemd or the disk refuses."""
        place, made = self.machine.path(self._place), {"role": self.role, **request}
        environment = {**os.environ, "SSH_CONNECTION": connection(self.machine)}
        environment.pop(_MARK, None)
        code = _CODE.format(environment=_ENVIRONMENT, archive=_ARCHIVE, package=__package__)
        try:
            os.makedirs(place, 0o700, exist_ok=True)
            shutil.copyfile(_archive(), f"{place}/{_ARCHIVE}")
            for name, text in (
                (_REQUEST, json.dumps(made)),
                (_ENVIRONMENT, json.dumps(environment)),
                (_PROGRAM, code),
            ):
                self.machine.write(f"{self._place}/{name}", text, 0o600)
            self.machine.run(
                [
                    *("systemd-run", "--quiet", f"--unit={self.unit}"),
                    f"--description=rdmaprov: {self.role}",
                    *(f"--property={each}" for each in systemd.ALONE),
                    "--property=KillMode=process",  # openibd may start daemons, which stay
                    f"--property=RuntimeMaxSec={LIMIT_S}",
                    *("--", sys.executable, "-I", f"{place}/{_PROGRAM}"),
                ]
            )
        except (OSError, NodeError) as error:
            _forget(self.machine, self._name)
            raise NodeError(f"the role's unit cannot be started: {error}") from error


def is_possible(machine: Machine) -> bool:
    """Return whether a module can be a unit here: systemd runs, and the module is in an archive."""
    is_booted = machine.exists(BOOTED) and machine.has("systemd-run")
    return bool(is_booted and _archive() and _PLAIN.fullmatch(sys.executable))


def is_at_work(machine: Machine, besides: str) -> bool:
    """Return whether a long step of another run than this one is at work."""
    return any(
        _state(machine, f"rdmaprov-step-{name}.service")["ActiveState"] in _AT_WORK
        for name in machine.names(STEPS)
        if not name.endswith(f"-{_digest(besides)}")
    )


def refuse(machine: Machine, besides: str) -> None:
    """Raise Held for a node that a long step of another run changes, as nothing on it lasts."""
    if is_at_work(machine, besides):
        holder, left_s = read_record(machine)
        raise Held(holder, True, max(left_s, 0.0), step=True)


def clear(machine: Machine, run: str, *, others: bool) -> None:
    """Remove what a run left that has ended, or what all others did; the latter under the lock."""
    for name in machine.names(STEPS):
        if name.endswith(f"-{_digest(run)}") != others:
            _forget(machine, name)


def take_request(directory: str) -> dict[str, Any]:
    """Return a unit's request, which no file has any more then."""
    path = f"{directory}/{_REQUEST}"
    with open(path, encoding="utf-8") as file:
        found: dict[str, Any] = json.load(file)
    os.unlink(path)
    return found


def write_result(directory: str, answer: dict[str, Any]) -> None:
    """Leave a unit's result to whoever asks next."""
    Machine(directory).write(_RESULT, json.dumps(answer), 0o600)


def _digest(run: str) -> str:
    return hashlib.sha256(run.encode()).hexdigest()[:16]


def _archive() -> str:
    """Return the archive that Ansible made of this module; empty for a checkout."""
    return str(getattr(globals().get("__loader__"), "archive", ""))


def _state(machine: Machine, unit: str) -> dict[str, str]:
    """Return what systemd says of a unit; that it is at work while systemd says nothing."""
    try:
        return systemd.show(machine, _SHOWN, [unit])[0]
    except NodeError:  # as while its own package is replaced
        return {"ActiveState": "active"}


def _forget(machine: Machine, name: str) -> None:
    with contextlib.suppress(NodeError):  # a unit that ended well is not known any more
        machine.run(["systemctl", "reset-failed", f"rdmaprov-step-{name}.service"])
    shutil.rmtree(machine.path(f"{STEPS}/{name}"), ignore_errors=True)
