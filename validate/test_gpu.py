"""NVIDIA GPUs and the services beside their driver, which no role owns."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from testinfra.host import Host

from rdmaprov.facts import devices, gpu, pci, units
from rdmaprov.inventory import Node
from rdmaprov.validate.verdict import AFTER_REBOOT, Setting, not_applicable, reboot

pytestmark = pytest.mark.state

_FABRIC_GUIDE = "journalctl -b -u nvidia-fabricmanager"
_OFF = "--no-persistence-mode"


def test_driver_shows_all_gpus(host: Host, node: Node) -> None:
    """The driver runs each NVIDIA GPU that is on the PCI bus."""
    there = _addresses(host)
    seen = sorted(each.address for each in gpu.read(host).gpus)
    if set(there) - set(seen):
        Setting(
            node,
            "nvidia",
            "GPUs of the driver are",
            "",
            where=gpu.QUERY,
            look="dmesg | grep -i xid",
        ).reject(seen, sorted(there))


def test_persistence_mode_running(host: Host, node: Node) -> None:
    """Each GPU is in persistence mode, so it stays initialized between jobs."""
    for each in _gpus(host):
        Setting(
            node,
            each.address,
            "persistence mode",
            "",
            where=gpu.QUERY,
            fix="nvidia-smi -pm 1, or nvidia-persistenced without --no-persistence-mode",
        ).require(each.is_on("persistence mode"), True)


def test_persistence_mode_after_reboot(host: Host, node: Node) -> None:
    """What turns persistence mode on at boot does so."""
    _gpus(host)
    unit = units.show(host, gpu.PERSISTENCE)[gpu.PERSISTENCE]
    if unit["LoadState"] == "not-found":
        not_applicable(
            f"no {gpu.PERSISTENCE}, so what turns persistence mode on at boot is not known"
        )
    setting = Setting(
        node,
        gpu.PERSISTENCE,
        "unit",
        "",
        where=f"systemctl show {gpu.PERSISTENCE}",
        truth=AFTER_REBOOT,
        fix=f"systemctl edit {gpu.PERSISTENCE}, then systemctl enable {gpu.PERSISTENCE}",
    )
    # Ubuntu's is static: a rule of udev's starts it. Its command turns persistence mode off.
    if unit.get("UnitFileState") not in ("enabled", "static"):
        setting.reject(unit.get("UnitFileState") or unit["LoadState"], "enabled")
    if _OFF in unit.get("ExecStart", "").split():
        setting.reject(f"started with {_OFF}", f"started without {_OFF}")


def test_ecc_running(host: Host, node: Node) -> None:
    """Each GPU that has ECC has it on or off as the site states."""
    _require_ecc(host, node, "ecc mode/current", "nvidia-smi -e 1, then reboot")


def test_ecc_after_reboot(host: Host, node: Node) -> None:
    """No change of ECC waits for a reboot that the site does not state."""
    _require_ecc(host, node, "ecc mode/pending", "nvidia-smi -e 1", AFTER_REBOOT)


def test_memory_repair_is_not_pending(host: Host, node: Node) -> None:
    """No GPU waits for a reset to retire a page or remap a row of its memory."""
    for each in _gpus(host):
        for what, names in (
            ("row remap", ("remapped rows/pending", "remapped rows")),
            (
                "page retirement",
                ("retired pages/pending page blacklist", "retired pages/pending"),
            ),
        ):
            Setting(
                node,
                each.address,
                what,
                "",
                where=gpu.QUERY,
                fix=f"nvidia-smi -r -i {each.address}, with no job on the node; or {reboot(node)}",
            ).require("pending" if each.is_on(*names) else "none", "none")


def test_memory_repair_has_not_failed(host: Host, node: Node) -> None:
    """No GPU has memory that could not be remapped."""
    for each in _gpus(host):
        names = ("remapped rows/remapping failure occurred", "remapped rows")
        Setting(
            node,
            each.address,
            "row remap",
            "",
            where=gpu.QUERY,
            look="dcgmi diag -r 3; the GPU may have to be replaced",
        ).require("failed" if each.is_on(*names) else "none", "none")


def test_fabric_manager_runs(host: Host, node: Node) -> None:
    """The fabric manager runs where the node has NVSwitches; without it CUDA does not start."""
    unit, is_contained = _fabric_manager(host)
    if is_contained:
        return
    Setting(
        node,
        gpu.FABRIC_MANAGER,
        "unit",
        "",
        where=f"systemctl show {gpu.FABRIC_MANAGER}",
        look=_FABRIC_GUIDE,
    ).require(unit.get("ActiveState") or "absent", "active")


def test_fabric_manager_after_reboot(host: Host, node: Node) -> None:
    """The fabric manager starts at boot where the node has NVSwitches."""
    unit, is_contained = _fabric_manager(host)
    if is_contained:
        not_applicable("the fabric manager runs in a container, which this node's boot starts")
    Setting(
        node,
        gpu.FABRIC_MANAGER,
        "unit",
        "",
        where=f"systemctl show {gpu.FABRIC_MANAGER}",
        truth=AFTER_REBOOT,
        fix=f"systemctl enable {gpu.FABRIC_MANAGER}",
    ).require(unit.get("UnitFileState") or "absent", "enabled")


def test_fabric_manager_is_of_the_drivers_version(host: Host, node: Node) -> None:
    """The fabric manager has exactly the driver's version, else its next start fails."""
    _needs_fabric_manager(host)
    Setting(
        node,
        "nv-fabricmanager",
        "version",
        "",
        where="nv-fabricmanager --version",
        fix="install the nvidia-fabricmanager package of the driver's version, and hold both",
    ).require(gpu.fabric_manager_version(host), gpu.read(host).version)


def test_gpus_have_joined_their_nvlink_fabric(host: Host, node: Node) -> None:
    """Each GPU that is part of an NVLink fabric has registered with it."""
    joining = [each for each in _gpus(host) if each.values.get("fabric/state", "N/A") != "N/A"]
    if not joining:
        not_applicable("no GPU is part of an NVLink fabric (nvidia-smi -q, Fabric)")
    for each in joining:
        state, status = each.text("fabric/state"), each.text("fabric/status")
        Setting(
            node, each.address, "NVLink fabric", "", where=gpu.QUERY, look=_FABRIC_GUIDE
        ).require(f"{state}, {status}", "Completed, Success")


def test_imex_runs(host: Host, node: Node) -> None:
    """IMEX runs where the node shares NVLink with others and a list says with which."""
    if not node.get("fabric_nvlink_domain"):
        not_applicable("the site does not set fabric_nvlink_domain")
    others = gpu.imex_nodes(host)
    if not others:
        not_applicable(f"{gpu.NODES} lists no node, so a job starts IMEX itself")
    unit = units.show(host, gpu.IMEX)[gpu.IMEX]
    if (unit.get("UnitFileState"), unit.get("ActiveState")) == ("disabled", "inactive"):
        not_applicable(f"{gpu.IMEX} is disabled, so a job starts IMEX itself")
    Setting(
        node,
        gpu.IMEX,
        "unit",
        "fabric_nvlink_domain",
        where=f"systemctl show {gpu.IMEX}; {gpu.NODES} lists {len(others)} nodes",
        look="journalctl -b -u nvidia-imex; nvidia-imex-ctl -N",
    ).require(unit.get("ActiveState") or "absent", "active")


def _addresses(host: Host) -> tuple[str, ...]:
    """Return the PCI addresses of the node's NVIDIA GPUs; skip where there are none."""
    found = pci.Functions.read(host).gpus((pci.NVIDIA,))
    if not found:
        not_applicable(f"the node has no NVIDIA GPU ({devices.PCI})")
    return found


def _gpus(host: Host) -> tuple[gpu.Gpu, ...]:
    """Return what the driver shows of the node's GPUs; skip where there are none."""
    _addresses(host)
    return gpu.read(host).gpus


def _fabric_manager(host: Host) -> tuple[Mapping[str, str], bool]:
    """Return the fabric manager's unit, and whether it runs in the driver's container instead."""
    _needs_fabric_manager(host)
    unit = units.show(host, gpu.FABRIC_MANAGER)[gpu.FABRIC_MANAGER]
    return unit, unit["LoadState"] == "not-found" and gpu.fabric_manager_runs(host)


def _needs_fabric_manager(host: Host) -> None:
    """Skip the test on nodes without NVSwitches of their own."""
    _addresses(host)
    if not pci.Functions.read(host).nvswitches():
        not_applicable("the node has no NVSwitch on its PCI bus")


def _require_ecc(host: Host, node: Node, path: str, fix: str, truth: str = "running") -> None:
    wanted = node.get("fabric_gpu_ecc")
    if wanted == "keep":
        not_applicable("fabric_gpu_ecc: keep")
    found = {each.address: each.is_on(path) for each in _gpus(host)}
    if all(is_on is None for is_on in found.values()):
        not_applicable("no GPU of the node has ECC")
    for address, is_on in found.items():
        if is_on is not None:
            Setting(
                node,
                address,
                "ECC",
                "fabric_gpu_ecc",
                where=gpu.QUERY,
                truth=truth,
                fix=fix if wanted == "on" else fix.replace("-e 1", "-e 0"),
            ).require(is_on, wanted == "on")
