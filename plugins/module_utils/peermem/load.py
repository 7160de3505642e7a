"""Loading nvidia_peermem, and why it does not load. Runs on the node."""

from __future__ import annotations

from ..kmod import modprobe, symbols
from ..machine import CommandFailed, Machine, NodeError
from ..ofed import dkms
from ..plan import NotYet

MODULE = "nvidia_peermem"
_SYMBOL = "ib_register_peer_memory_client"
# [NVIDIA open-gpu-kernel-modules kernel-open/nvidia-peermem/nvidia-peermem.c: nv_mem_client_init]
_SWITCHES = ("peerdirect_support", "persistent_api_support")


def reboot_reason(machine: Machine) -> str:
    """Return why the module can only be loaded after a reboot, empty if it can be now.

    Raises:
        NotYet: the RDMA drivers take no peer-memory clients. The module would not load, with
            the same error as for other reasons.
    """
    if (
        not machine.exists("/sys/module/ib_core")
        or symbols.has_symbol(machine, _SYMBOL) is not False
    ):
        return ""
    lacks = f"the RDMA drivers that run have no {_SYMBOL} ({symbols.FILE})"
    running = machine.value("/sys/module/ib_core/srcversion") or ""
    if modprobe.info(machine, "ib_core", "-F", "srcversion").strip() != running:
        return f"{MODULE}: {lacks}, but others are on disk (modinfo -F srcversion ib_core)"
    raise NotYet(
        f"{MODULE}: {lacks}, which it needs: write ofed_source: doca, or peermem_mode: dmabuf"
    )


def load(machine: Machine) -> None:
    """Load the module.

    Raises:
        NodeError: it does not load; says why, and what to do.
    """
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
    if symbols.has_symbol(machine, _SYMBOL) is False:
        return (
            f"The RDMA drivers that run have no {_SYMBOL} ({symbols.FILE}): write "
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
