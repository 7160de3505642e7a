"""Which packages upgrades leave as they are, and which of those are our doing. Runs on the node."""

from __future__ import annotations

import json

from ..busy import some
from ..machine import Machine
from ..packages import Manager
from ..plan import CONFIGURED, Change, Plan
from . import package_names

# What we put on hold. What an administrator held is never released.
OURS = "/var/lib/rdmaprov/ofed-holds.json"


def plan_holds(plan: Plan, manager: Manager, wanted: bool) -> None:
    """Have driver, kernel and GPU driver on hold together, or nothing of ours on hold."""
    machine, ours, on_hold = plan.machine, _ours(plan.machine), manager.held()
    installed = manager.installed()
    names = package_names.to_hold(installed) if wanted else []
    lacking = [name for name in names if name not in on_hold]
    stale = [name for name in ours if name not in names]
    if lacking:
        change = Change(CONFIGURED, "packages", "hold", "none on " + some(lacking, 3), "held")
        plan.add(change, lambda: _hold(machine, manager, lacking))
    if stale:
        release = [name for name in stale if name in on_hold and name in installed]
        change = Change(CONFIGURED, "packages", "hold", "held: " + some(stale, 3), "none")
        plan.add(change, lambda: _release(machine, manager, release, stale))


def _hold(machine: Machine, manager: Manager, names: list[str]) -> None:
    _write(machine, {*_ours(machine), *names})  # first: one that is cut is still known to be ours
    manager.hold(names)


def _release(machine: Machine, manager: Manager, names: list[str], forget: list[str]) -> None:
    if names:
        manager.release(names)
    _write(machine, {*_ours(machine)} - {*forget})


def _ours(machine: Machine) -> list[str]:
    try:
        return [str(name) for name in json.loads(machine.read(OURS) or "[]")]
    except ValueError:
        return []


def _write(machine: Machine, names: set[str]) -> None:
    if names:
        machine.write(OURS, json.dumps(sorted(names)) + "\n")
    else:
        machine.remove(OURS)
