"""The kernel's own RDMA drivers, with the distribution's tools. Runs on the node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..bluefield import IDS as BLUEFIELDS
from ..machine import Machine
from ..packages import Manager, Offer, Package
from ..pci import DEVICES
from ..plan import CONFIGURED, Change, Plan, Refused
from . import driver, ofed_info, package_names
from .work import Work, exchange, exchanges


def vendors_ofed(machine: Machine, installed: Mapping[str, Package]) -> str:
    """Return the OFED of a vendor that the node has, by packages or not; empty for none."""
    flavours = sorted(package_names.flavours(installed))
    info = ofed_info.read(machine)
    if info is not None:
        return f"{info.flavour} {info.version}"
    if flavours:
        return ", ".join(flavours)
    kernel = next(
        (each for each in driver.kernels(machine) if driver.is_vendors(machine, each)), ""
    )
    return f"a vendor's {driver.DRIVER} of kernel {kernel}" if kernel else ""


def work(machine: Machine, manager: Manager, arguments: dict[str, Any]) -> Work:  # noqa: ARG001
    """Return what makes the kernel's own drivers the node's, and the only ones."""
    installed = manager.installed()
    theirs = [name for name, each in installed.items() if package_names.is_vendors_only(each)]
    shared = [name for name, each in installed.items() if package_names.is_shared_from_vendor(each)]
    tools = _tools(machine, manager)
    lacking = [name for name in tools if name not in installed]

    def add(plan: Plan) -> None:
        plan.absent(manager.repository_file)
        plan.absent(manager.key_file)
        if theirs or shared:
            seen = ", ".join(sorted(package_names.flavours(installed))) or "the vendor's tools"
            change = Change(CONFIGURED, "packages", "RDMA drivers", seen, "inbox")
            plan.add(change, lambda: _exchange(machine, manager, theirs, [*shared, *lacking]))
            exchanges(plan)
        elif lacking:
            change = Change(
                CONFIGURED, "packages", "RDMA tools", "absent: " + ", ".join(lacking), "installed"
            )
            plan.add(change, lambda: _exchange(machine, manager, [], lacking))
        else:
            _uninstall_unpackaged(plan)
        _kernels(plan, manager)

    return Work(add, bool(theirs), theirs)


def _tools(machine: Machine, manager: Manager) -> list[str]:
    """Return the packages for RDMA; with a BlueField, also what reads its mode."""
    ids = [machine.value(f"{DEVICES}/{each}/device") for each in machine.names(DEVICES)]
    is_needed = not set(BLUEFIELDS).isdisjoint(ids) and not machine.has("mlxconfig")
    return [*manager.rdma_tools(), *(["mstflint"] if is_needed else [])]


def _exchange(machine: Machine, manager: Manager, remove: list[str], names: list[str]) -> None:
    """Have the distribution's version of packages; what it does not have goes."""
    offers: dict[str, Offer] = {}
    for offer in manager.distribution(names):
        if not package_names.is_shared_from_vendor(Package(offer.name, offer.version)):
            offers.setdefault(offer.name, offer)
    lacking = [name for name in _tools(machine, manager) if name in names and name not in offers]
    if lacking:
        raise Refused(
            f"{', '.join(lacking)}: no repository of the node has it; add the "
            "distribution's own repository"
        )
    gone = [name for name in names if name not in offers]
    exchange(machine, manager, remove + gone, list(offers.values()))


def _uninstall_unpackaged(plan: Plan) -> None:
    """Remove an OFED that the vendor's installer left without packages."""
    machine = plan.machine
    info = ofed_info.read(machine)
    if info is None:
        return
    script = "ofed_uninstall.sh"
    if not machine.has(script):
        raise Refused(
            f"ofed_info shows {info.flavour} {info.version}, but neither its packages nor {script} "
            "are installed; remove it by hand"
        )
    seen = f"{info.flavour} {info.version}"
    change = Change(CONFIGURED, "ofed_info", "RDMA drivers", seen, "inbox")
    plan.command(change, [script, "--force"])
    exchanges(plan)


def _kernels(plan: Plan, manager: Manager) -> None:
    """Have the kernels' modules for RDMA: small kernels have them in a package of their own."""
    for kernel in driver.kernels(plan.machine):
        lacking = driver.lacking_modules(plan.machine, kernel)
        if not lacking:
            continue
        package = manager.more_modules(kernel)
        if not package or package in manager.installed():
            raise Refused(
                f"kernel {kernel} has no {', '.join(lacking)}; is it a cloud kernel? "
                "Install the distribution's usual one, and boot it"
            )
        _more_modules(plan, manager, kernel, package, lacking)


def _more_modules(
    plan: Plan, manager: Manager, kernel: str, package: str, lacking: list[str]
) -> None:
    def do() -> None:
        offers = manager.distribution([package])
        if not offers:
            raise Refused(
                f"kernel {kernel} has no {', '.join(lacking)}, and no repository of the "
                f"node has {package}; boot a newer kernel"
            )
        exchange(plan.machine, manager, [], offers[:1])

    change = Change(CONFIGURED, f"kernel {kernel}", "modules", "no " + ", ".join(lacking), package)
    plan.add(change, do)
