"""How the NICs reach GPU memory: nvidia-peermem or dma-buf. Runs on the node."""

from __future__ import annotations

import re
from typing import Any

from .. import pci, systemd
from ..kmod import modprobe
from ..kmod.parameters import is_loaded
from ..machine import CommandFailed, Machine, NodeError
from ..ofed import dkms
from ..peermem import dmabuf
from ..plan import CONFIGURED, RUNNING, Change, NotYet, Plan, Refused
from ..rails import find

UNIT = "nvidia-persistenced.service"
DROP_IN = f"/etc/systemd/system/{UNIT}.d/99-rdmaprov.conf"
HEADER = "# Written by rdmaprov (peermem); changes here are lost.\n"
_OFF = "--no-persistence-mode"
_PROPERTIES = "LoadState,UnitFileState,ExecStart,NeedDaemonReload,FragmentPath,DropInPaths"
_QUERY = ["nvidia-smi", "--query-gpu=persistence_mode", "--format=csv,noheader"]
MODULE = "nvidia_peermem"
_SYMBOL = "ib_register_peer_memory_client"
# [NVIDIA open-gpu-kernel-modules kernel-open/nvidia-peermem/nvidia-peermem.c: nv_mem_client_init]
_SWITCHES = ("peerdirect_support", "persistent_api_support")
FILE = "/etc/modules-load.d/rdmaprov-peermem.conf"
TEXT = f"{HEADER}{MODULE}\n"
_REGISTRY = "/sys/kernel/mm/memory_peers"
# The name depends on persistent_api_support. NCCL looks for both.
# [NCCL src/transport/net_ib/gdr.cc: ibGdrSupportInitOnce]
_CLIENTS = ("nv_mem", "nv_mem_nc")
_OLD = "nv_peer_mem"


def persistence(plan: Plan, wanted: str) -> None:
    """Have persistence mode on, if the site asks for that; without, no file of ours.

    Ubuntu's unit starts the daemon with --no-persistence-mode; a drop-in starts it without.

    Raises:
        Refused: there is no unit, a boot may not start it, or its command has another form.
    """
    machine = plan.machine
    if wanted != "on" or not pci.gpus(machine, (pci.NVIDIA,)):
        if plan.absent(DROP_IN):
            plan.then(["systemctl", "daemon-reload"])
        return
    unit = systemd.show(machine, _PROPERTIES, [UNIT])[0]
    if unit.get("LoadState") != "loaded":
        raise Refused(
            f"peermem_gpu_persistence: {UNIT} is {unit.get('LoadState', 'not-found')}: install the "
            "driver's package that has it (nvidia-compute-utils-BRANCH on Ubuntu, else "
            "nvidia-persistenced), unmask it, or write keep"
        )
    _at_boot(plan, unit)
    modes = machine.run(_QUERY).split()
    if set(modes) - {"Enabled"}:
        # By the daemon where it runs, which goes on, and so do jobs. [man nvidia-smi, -pm]
        change = Change(RUNNING, "GPUs", "persistence mode", ", ".join(modes), "Enabled")
        plan.command(change, ["nvidia-smi", "-pm", "1"])


def _at_boot(plan: Plan, unit: dict[str, str]) -> None:
    """Have the daemon started at boot, and without the option that turns its work off."""
    found = re.search(r"argv\[\]=(/[^;$%'\"\\{}]+?) ;", unit.get("ExecStart", ""))
    if found is None:
        raise Refused(f"{UNIT}: its ExecStart is not understood: {unit.get('ExecStart', '')[:80]}")
    words = found.group(1).split()
    command = " ".join(word for word in words if word != _OFF)
    if _OFF in words or plan.machine.exists(DROP_IN):
        change = Change(CONFIGURED, UNIT, "ExecStart", " ".join(words), command)
        text = f"{HEADER}[Service]\nExecStart=\nExecStart={command}\n"
        if plan.file(DROP_IN, text, change=change if _OFF in words else None):
            plan.then(["systemctl", "daemon-reload"])
        elif _OFF in words and unit.get("NeedDaemonReload") != "yes":
            raise Refused(f"{UNIT}: a file after {DROP_IN} has {_OFF}: {unit.get('DropInPaths')}")
        elif _OFF in words:
            plan.command(change, ["systemctl", "daemon-reload"])
    # Ubuntu's is static: a rule of udev's starts it with the driver.
    state = unit.get("UnitFileState", "")
    if state == "disabled":
        change = Change(CONFIGURED, UNIT, "unit", state, "enabled")
        plan.command(change, ["systemctl", "enable", UNIT])
    elif state not in ("enabled", "static"):
        raise Refused(f"{UNIT}: it is {state or 'of no known state'}, so it does not start at boot")


def plan(machine: Machine, arguments: dict[str, Any]) -> Plan:
    """Return what must change for the NICs to reach GPU memory, now and after a boot.

    Raises:
        NotYet: a driver is not there.
        Refused: the node cannot do it that way.
    """
    plan = Plan(machine)
    persistence(plan, arguments["gpu_persistence"])
    mode, why = _mode(machine, arguments)
    plan.notes.append(f"{mode}: {why}")
    if mode == "nvidia-peermem":
        try:
            _plan_load(plan)
        except (NotYet, Refused) as error:
            raise type(error)(f"{error} ({plan.notes[0]})") from error
        plan.file(FILE, TEXT)
        return plan
    plan.absent(FILE)
    if is_loaded(machine, MODULE):
        plan.notes.append(
            f"{MODULE} is loaded and stays loaded until the next reboot, because a job may use it. "
            f"To unload it now, run on the node: modprobe -r {MODULE}"
        )
    return plan


def _mode(machine: Machine, arguments: dict[str, Any]) -> tuple[str, str]:
    """Return how the NICs are to reach GPU memory, and why."""
    mode: str = arguments["mode"]
    if mode == "off":
        return mode, "set by peermem_mode"
    if mode == "auto" and not pci.gpus(machine, (pci.NVIDIA,)):
        return "off", "the node has no NVIDIA GPU (/sys/bus/pci/devices)"
    if arguments["gpu_module"]:
        _require_flavour(machine, arguments["gpu_module"])
    if mode == "nvidia-peermem":
        return mode, "set by peermem_mode"
    why = dmabuf.obstacle(machine, find(machine, arguments["rails"]))
    if mode == "auto":
        return ("nvidia-peermem", why) if why else ("dmabuf", "the node supports it")
    if why:
        raise Refused(f"dma-buf cannot be used: {why}. Write peermem_mode: nvidia-peermem, or auto")
    return mode, "set by peermem_mode"


def _require_flavour(machine: Machine, wanted: str) -> None:
    seen, where = dmabuf.gpu_module(machine)
    if seen != wanted:
        raise Refused(
            f"the nvidia module is {seen} ({where}), expected {wanted} (peermem_gpu_module): "
            f"install that one, or write peermem_gpu_module: {seen}"
        )


def _plan_load(plan: Plan) -> None:
    """Have the module loaded and registered.

    It is loaded before a file says so: what does not load never gets into what a boot reads. Only
    after new RDMA drivers, a boot is what loads it first.
    """
    machine = plan.machine
    if machine.exists("/sys/module/" + _OLD):
        raise Refused(f"{_OLD} is loaded, which {MODULE} replaces: remove its package, and reboot")
    denied = modprobe.boot_obstacle(machine, MODULE)
    if denied:
        raise Refused(f"{MODULE} would not be loaded at boot: {denied}; remove it there")
    if not is_loaded(machine, MODULE):
        modprobe.info(machine, MODULE, "-F", "version")
        why = reboot_reason(machine)
        if why:
            plan.reboot.append(why)
            return
        change = Change(RUNNING, MODULE, "module", "not loaded", "loaded")
        plan.add(change, lambda: load(machine))
    elif not _is_registered(machine):
        raise NodeError(
            f"{MODULE} is loaded, but not registered with the RDMA drivers ({_REGISTRY}): once no "
            f"job runs, run on the node: modprobe -r {MODULE}; then repeat this run"
        )


def _is_registered(machine: Machine) -> bool:
    """Return whether RDMA drivers know the module, as NCCL tells it.

    Where a kernel shows no clients at all, that it is loaded has to do: without registering, it
    does not load.
    """
    if any(machine.value(f"{_REGISTRY}/{name}/version") for name in _CLIENTS):
        return True
    return not machine.exists(_REGISTRY) and machine.exists(f"/sys/module/{MODULE}/version")


def reboot_reason(machine: Machine) -> str:
    """Return why the module can only be loaded after a reboot, empty if it can be now.

    Raises:
        NotYet: the RDMA drivers take no peer-memory clients. The module would not load, with
            the same error as for other reasons.
    """
    if (
        not machine.exists("/sys/module/ib_core")
        or modprobe.has_symbol(machine, _SYMBOL) is not False
    ):
        return ""
    lacks = f"the RDMA drivers that run have no {_SYMBOL} ({modprobe.KALLSYMS})"
    running = machine.value("/sys/module/ib_core/srcversion") or ""
    if modprobe.info(machine, "ib_core", "-F", "srcversion").strip() != running:
        return f"{MODULE}: {lacks}, but others are on disk (modinfo -F srcversion ib_core)"
    raise NotYet(
        f"{MODULE}: {lacks}, which it needs: write ofed_source: doca, or peermem_mode: dmabuf"
    )


def load(machine: Machine) -> None:
    """Load the module, or raise NodeError that says why it does not load, and what to do."""
    before = set(_log(machine))
    try:
        machine.run(["modprobe", MODULE])
    except CommandFailed as error:
        said = "\n".join(line for line in _log(machine) if line not in before)
        why = _cause(machine, error.output, said)
        raise NodeError(f"{MODULE} does not load: {error.output}. {why}") from error


def _cause(machine: Machine, answer: str, log: str) -> str:
    """Return why it did not load, and what to do."""
    if "disagrees about version of symbol" in log:
        return (
            "OFED was changed after the GPU driver was built: the kernel log has '{}'. {}".format(
                _line(log, "disagrees about version"), _rebuild(machine)
            )
        )
    if f"Unknown symbol {_SYMBOL}" in log:
        return (
            f"It was built for OFED, but the running RDMA drivers lack {_SYMBOL}. Reboot the node "
            "if OFED was just installed; else write ofed_source: doca"
        )
    if "Key was rejected" in answer or "Required key" in answer:
        return (
            "Secure Boot requires a signature with an enrolled key. "
            "Run on the node: mokutil --list-enrolled"
        )
    if "No such device" in answer:
        return "The nvidia module finds no GPU. Run on the node: dmesg | grep NVRM"
    if "Invalid argument" in answer:
        return _invalid(machine)
    return f"Run on the node: modprobe -v {MODULE}; dmesg"


def _invalid(machine: Machine) -> str:
    """Return the reason for EINVAL, for which the kernel log has no line."""
    options = modprobe.options(machine)
    for switch in _SWITCHES:
        option = modprobe.effective(options, MODULE, switch)
        if option is not None and option.value not in ("0", "1"):
            return (
                f"{option.file} sets {switch} to {option.value}, expected 0 or 1: correct it there"
            )
    if modprobe.has_symbol(machine, _SYMBOL) is False:
        return (
            f"The RDMA drivers that run have no {_SYMBOL} ({modprobe.KALLSYMS}): write "
            "ofed_source: doca, or peermem_mode: dmabuf"
        )
    return f"The GPU driver was built before OFED, without {_SYMBOL}. {_rebuild(machine)}"


def _rebuild(machine: Machine) -> str:
    if not any(each.name.startswith("nvidia") for each in dkms.sources(machine)):
        return (
            "DKMS has no sources of the GPU driver: it is precompiled, as the distribution's is "
            "(modinfo -F filename nvidia). Install its package for DKMS, such as nvidia-dkms-580, "
            "or write peermem_mode: dmabuf"
        )
    release = machine.value("/proc/sys/kernel/osrelease")
    version = modprobe.info(machine, MODULE, "-F", "version").strip()
    which = f"nvidia/{version} -k {release}"
    return f"Build it again, with DKMS: dkms remove {which}; dkms install {which}; then reboot"


def _log(machine: Machine) -> list[str]:
    try:
        return machine.run(["dmesg"]).splitlines()
    except NodeError:
        return []  # it only helps to explain


def _line(log: str, words: str) -> str:
    return next(line for line in log.splitlines() if words in line).strip()
