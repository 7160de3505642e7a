"""One flavour of the RDMA drivers: what is there, inbox, DOCA-OFED or MLNX_OFED. On the node."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from .. import packages as managers
from ..machine import CommandFailed, Machine
from ..ofed import dkms, driver, holds, inbox, vendor
from ..ofed.work import Work, exchanges
from ..packages import Manager
from ..packages.manager import UPDATER
from ..plan import CONFIGURED, Change, Plan, Refused, Step, make


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
    plan.is_long = bool(plan.steps)
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
        plan_rebuild(plan, kernels)
        return

    def do() -> None:
        rest = Plan(machine)
        plan_rebuild(rest, kernels)
        for step in rest.steps:
            make(machine, step)

    plan.steps.append(Step(None, do))


# Loading nvidia_peermem fails with nothing but EINVAL if it was compiled before the RDMA driver was
# there, or against another one: the symbol's checksum tells. [NVIDIA open-gpu-kernel-modules
# kernel-open/nvidia-peermem/nvidia-peermem.c; NVIDIA/gpu-operator issue 2868]
SYMBOL = "ib_register_peer_memory_client"


def plan_rebuild(plan: Plan, kernels: list[str]) -> None:
    """Have DKMS's GPU driver compiled against the RDMA driver that is installed."""
    machine = plan.machine
    sources = [each for each in dkms.sources(machine) if re.match(r"nvidia\b", each.name)]
    for kernel in kernels:
        wanted = _offered(machine, kernel)
        for each in sources:
            if not wanted or kernel not in each.installed:
                continue
            seen = _used(machine, kernel)
            if seen is not None and seen != wanted:
                setting = f"{SYMBOL} of nvidia_peermem"
                change = Change(CONFIGURED, f"kernel {kernel}", setting, seen or "none", wanted)
                plan.add(change, partial(dkms.install, machine, each, kernel, True))


def _offered(machine: Machine, kernel: str) -> str:
    """Return the checksum of the RDMA driver's symbol, empty if it has no such symbol."""
    arch = machine.run(["uname", "-m"]).strip()
    for directory in (f"{arch}/{kernel}", "default"):
        text = machine.read(f"/usr/src/ofa_kernel/{directory}/Module.symvers")
        if text is not None:
            found = re.search(rf"^(0x[0-9a-f]+)\s+{SYMBOL}\s", text, re.M)
            return found.group(1) if found else ""
    return ""


def _used(machine: Machine, kernel: str) -> str | None:
    """Return the checksum that nvidia_peermem has, empty if none, None without that module."""
    try:
        path = machine.run(["modinfo", "-k", kernel, "-F", "filename", "nvidia-peermem"]).strip()
    except CommandFailed as error:
        if "not found" in error.output:
            return None
        raise
    said = machine.run(["modprobe", "--dump-modversions", path])
    found = re.search(rf"^(0x[0-9a-f]+)\s+{SYMBOL}$", said, re.M)
    return found.group(1) if found else ""
