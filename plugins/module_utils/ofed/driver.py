"""The RDMA modules themselves: for each kernel on disk, at boot, and in force. Runs on the node."""

from __future__ import annotations

import re
from functools import partial

from ..kmod import initramfs, reload
from ..machine import CommandFailed, Machine, NodeError
from ..plan import CONFIGURED, RUNNING, Change, NotYet, Plan, Refused
from . import dkms

# Written before packages change and removed once each initramfs was built again: one that is there
# tells the next plan that a boot may load modules of before.
STALE_INITRAMFS = "/var/lib/rdmaprov/ofed-initramfs"
RESTARTED = "/run/rdmaprov/openibd"
OPENIBD = "/etc/init.d/openibd"
DRIVER = "mlx5_core"
SOURCE = "mlnx-ofed-kernel"
STACK = (
    "mlx5_ib",
    "mlx5_core",
    "mlxdevm",
    "mlxfw",
    "ib_ipoib",
    "ib_umad",
    "rdma_ucm",
    "rdma_cm",
    "ib_cm",
    "iw_cm",
    "ib_uverbs",
    "ib_core",
    "mlx_compat",
)
# What RDMA programs need of the kernel.
NEEDED = ("ib_uverbs", "rdma_ucm", "mlx5_ib")


def running_kernel(machine: Machine) -> str:
    """Return the running kernel's release; raise NodeError if it is unknown."""
    release = machine.value("/proc/sys/kernel/osrelease")
    if not release:
        raise NodeError("/proc/sys/kernel/osrelease does not show the running kernel")
    return release


def kernels(machine: Machine) -> list[str]:
    """Return the kernels that count: the running one, and the newest, which a boot takes."""
    running = running_kernel(machine)
    bootable = [
        name
        for name in machine.names("/lib/modules")
        if machine.exists(f"/boot/vmlinuz-{name}")
        and machine.exists(f"/lib/modules/{name}/modules.dep")
    ]
    newest = max(bootable, key=_in_order, default=running)
    return [running] if newest == running else [running, newest]


def lacks_headers(machine: Machine, kernel: str) -> bool:
    """Return whether modules cannot be compiled for a kernel."""
    return not machine.exists(f"/lib/modules/{kernel}/build/Makefile")


def lacking_modules(machine: Machine, kernel: str) -> list[str]:
    """Return the RDMA modules that a kernel's packages lack; raise NodeError without their list."""
    listed = machine.read(f"/lib/modules/{kernel}/modules.dep")
    if listed is None:
        raise NodeError(
            f"/lib/modules/{kernel}/modules.dep is missing. Run on the node: depmod {kernel}"
        )
    listed += machine.read(f"/lib/modules/{kernel}/modules.builtin") or ""
    found = set(re.findall(r"([^/\s]+)\.ko(?:\.\w+)?(?=[:\s])", listed + "\n"))
    return [name for name in NEEDED if name not in found]


def is_vendors(machine: Machine, kernel: str) -> bool:
    """Return whether a kernel would load the vendor's driver: depmod prefers these directories."""
    path = _modinfo(machine, kernel, DRIVER).get("filename", "")
    return bool(re.search(r"/(updates|extra|weak-updates)/", path))


def plan_build(plan: Plan, source: str, version: str) -> None:
    """Have the vendor's modules for each kernel that counts.

    Raises:
        Refused: its packages have none for one, and cannot compile them.
    """
    machine = plan.machine
    known = [each for each in dkms.sources(machine) if each.name == SOURCE]
    for kernel in kernels(machine):
        if known and kernel not in known[-1].installed:
            change = Change(
                CONFIGURED, f"kernel {kernel}", f"{SOURCE} modules", "none", "installed"
            )
            plan.add(change, partial(dkms.install, machine, known[-1], kernel))
        elif not known and not is_vendors(machine, kernel):
            raise Refused(
                f"kernel {kernel}: {source} {version} has no {DRIVER} for it (modinfo -k {kernel} "
                f"{DRIVER}) and nothing to compile one; boot a kernel that it supports, or write "
                "another ofed_version"
            )


def refuse_strangers(machine: Machine) -> None:
    """Refuse a vendor's driver that no package brought, where the kernel's own is wanted."""
    for kernel in kernels(machine):
        if is_vendors(machine, kernel):
            path = _modinfo(machine, kernel, DRIVER)["filename"]
            raise Refused(
                f"kernel {kernel}: {DRIVER} is {path}, not the kernel's own "
                "(ofed_source is inbox), and no package of a vendor is installed. "
                f"Remove it, and run: depmod {kernel}"
            )


def in_initramfs(plan: Plan) -> None:
    """Have each initramfs made with the modules that are installed now."""
    machine = plan.machine
    if not machine.exists(STALE_INITRAMFS):
        return
    change = Change(CONFIGURED, "initramfs", "RDMA modules", "of before", "as installed")
    plan.add(change, lambda: _renew_initramfs(machine))


def running(plan: Plan, restart: str) -> None:
    """Have the modules that are installed in force: by a restart where that may be, else a boot."""
    machine = plan.machine
    if machine.exists(RESTARTED):
        change = Change(RUNNING, "openibd", "restart", "interrupted", "finished")
        plan.add(change, lambda: _restart(machine))
        return
    reasons = different(machine)
    if not reasons:
        return
    why = obstacle(machine) if restart == "if-needed" else ""
    if restart == "never" or why:
        plan.reboot += [reason + (f"; not restarted: {why}" if why else "") for reason in reasons]
        return
    change = Change(RUNNING, "openibd", "RDMA modules", reasons[0], "as installed")
    plan.add(change, lambda: _restart(machine))
    restarts(plan)


def restarts(plan: Plan) -> None:
    """Say what a restart of the drivers interrupts."""
    plan.interrupt(
        "openibd restart", "all RDMA devices and their links disappear", "for 10 to 60 s"
    )
    reload.takes_nvlsm(plan, "openibd restart")


def different(machine: Machine) -> list[str]:
    """Return how each loaded module differs from the installed one."""
    kernel, found = running_kernel(machine), []
    for module in STACK:
        if not machine.exists(f"/sys/module/{module}/initstate"):
            continue
        on_disk = _modinfo(machine, kernel, module)
        for key in ("srcversion", "version"):
            path = f"/sys/module/{module}/{key}"
            seen, wanted = machine.value(path) or "none", on_disk.get(key) or "none"
            if seen != wanted:
                found.append(f"{module}: {key} {seen} runs, {wanted} is installed ({path})")
                break
    return found


def outdated_by_packages(machine: Machine) -> list[str]:
    """Return why a reboot will be required once packages have changed."""
    if not machine.exists(f"/sys/module/{DRIVER}/initstate"):
        return []
    return [f"{DRIVER} is loaded, and another version will be installed (ofed_restart is never)"]


def obstacle(machine: Machine) -> str:
    """Return what keeps the modules from being loaded again without harm, empty if nothing does."""
    if not machine.exists(OPENIBD):
        return f"there is no {OPENIBD}"
    for module in STACK:
        why = reload.obstacle(machine, module, STACK)
        if why:
            return why
    return ""


def _renew_initramfs(machine: Machine) -> None:
    try:
        program = initramfs.builder(machine)
    except NotYet:
        machine.remove(STALE_INITRAMFS)  # no initramfs, so none is of before
        return
    for kernel in kernels(machine):
        if program == "dracut":
            argv = ["dracut", "--force", f"/boot/initramfs-{kernel}.img", kernel]
        else:
            argv = ["update-initramfs", "-u", "-k", kernel]
        machine.run(argv, timeout_s=initramfs.BUILD_TIMEOUT_S)
    machine.run(["sync", "-f", machine.path("/boot")])
    machine.remove(STALE_INITRAMFS)


def packages_change(machine: Machine) -> None:
    """Leave the mark that each initramfs is of before."""
    machine.write(STALE_INITRAMFS, "")


def _restart(machine: Machine) -> None:
    machine.write(RESTARTED, "")
    machine.run([OPENIBD, "restart"])
    machine.remove(RESTARTED)


def _modinfo(machine: Machine, kernel: str, module: str) -> dict[str, str]:
    """Return what a kernel's installed module says of itself; nothing if there is none."""
    try:
        said = machine.run(["modinfo", "-k", kernel, module])
    except CommandFailed as error:
        if "not found" in error.output:
            return {}
        raise
    rows = (line.partition(":") for line in said.splitlines())
    return {
        key: value.strip() for key, _, value in rows if key in ("filename", "version", "srcversion")
    }


def _in_order(release: str) -> list[tuple[int, str]]:
    parts = re.findall(r"\d+|[a-z]+", release)
    return [(int(part), "") if part.isdigit() else (-1, part) for part in parts]
