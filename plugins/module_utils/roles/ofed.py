"""One flavour of the RDMA drivers: what is there, inbox, DOCA-OFED or MLNX_OFED. On the node."""

from __future__ import annotations

from typing import Any

from .. import packages as managers
from ..machine import Machine
from ..ofed import driver, gpu_modules, holds, inbox, vendor
from ..ofed.work import Work, exchanges
from ..packages import Manager
from ..packages.manager import UPDATER
from ..plan import CONFIGURED, Change, Plan, Refused, Step, make

_TEXT: dict[str, Any] = {"type": "str", "default": ""}


def plan(machine: Machine, arguments: dict[str, Any]) -> Plan:
    """Return what must change for the node to run these drivers and no others.

    What can only be told once packages have changed (modules to compile, holds, what runs) is
    planned and made by a step after them.
    """
    plan = Plan(machine)
    manager = managers.of(machine)
    manager.burns = arguments["firmware"] == "update"
    source = arguments["source"]
    if source in ("keep", "inbox") and arguments["version"]:
        raise Refused(
            f"ofed_version: '{arguments['version']}' is set, but ofed_source: {source} has no "
            "version; remove it, or write ofed_source: doca"
        )
    if source == "keep":
        present = inbox.vendors_ofed(machine, manager.installed())
        if present:
            plan.notes.append(f"RDMA drivers: {present} stays (ofed_source: keep)")
            return plan
        source = "inbox"
        arguments = {**arguments, "source": source}
    before = inbox if source == "inbox" else vendor
    work = before.work(machine, manager, arguments)
    _finish_interrupted(plan, manager, work)
    work.add(plan)
    if plan.steps:
        if source != "inbox" and arguments["restart"] == "never":
            plan.reboot += driver.outdated_by_packages(machine)
        if source != "inbox" and arguments["restart"] == "if-needed":
            driver.restarts(plan)
        plan.steps.append(Step(None, lambda: _settle(machine, manager, arguments)))
    else:
        _rest(plan, manager, arguments)
    return plan


def _finish_interrupted(plan: Plan, manager: Manager, work: Work) -> None:
    """Finish what an installation that was cut left behind."""
    halfway = [each.name for each in manager.installed().values() if not each.whole]
    if not halfway and not manager.interrupted():
        return
    seen = "halfway: " + (", ".join(halfway) or "the manager's own journal")
    change = Change(CONFIGURED, "packages", "installation", seen, "finished")
    # Its configuration is what burns.
    kept = [] if manager.burns else [UPDATER]
    drop = [name for name in halfway if name in (*work.drop, *kept)]
    plan.add(change, lambda: manager.repair(halfway, drop, work.tolerate))
    exchanges(plan)


def _settle(machine: Machine, manager: Manager, arguments: dict[str, Any]) -> None:
    """Do what follows from the packages that are there now."""
    rest = Plan(machine)
    _rest(rest, manager, arguments)
    for step in rest.steps:
        make(machine, step)


def _rest(plan: Plan, manager: Manager, arguments: dict[str, Any]) -> None:
    machine, source = plan.machine, arguments["source"]
    vendors = source != "inbox"
    if vendors:
        driver.plan_build(plan, source, arguments["version"])
        _gpu(plan, after_others=bool(plan.steps))
        vendor.check(machine, arguments)
    else:
        driver.refuse_strangers(machine)
    driver.in_initramfs(plan)
    holds.plan_holds(plan, manager, vendors and arguments["hold"])
    driver.running(plan, arguments["restart"])


def _gpu(plan: Plan, after_others: bool) -> None:
    """Have the GPU driver compiled against the RDMA driver, which is there first."""
    machine = plan.machine
    kernels = driver.kernels(machine)
    if not after_others:
        gpu_modules.plan_rebuild(plan, kernels)
        return

    def do() -> None:
        rest = Plan(machine)
        gpu_modules.plan_rebuild(rest, kernels)
        for step in rest.steps:
            make(machine, step)

    plan.steps.append(Step(None, do))
