"""Parameters of the RDMA stack's kernel modules, and the NICs' firmware."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from testinfra.host import Host

from rdmaprov.facts import (
    devices,
    firmware,
    firmware_profiles,
    initramfs,
    kernel_modules,
    lower_ports,
    pci,
    rails,
)
from rdmaprov.facts.kernel_modules import same_value
from rdmaprov.facts.text import read_files
from rdmaprov.inventory import Node, Rail
from rdmaprov.validate.verdict import (
    AFTER_REBOOT,
    CONFIGURED,
    RUNNING,
    Setting,
    not_applicable,
    reboot,
)

pytestmark = pytest.mark.state

_VARIABLE = "mlx5_module_parameters"
_MELLANOX = "0x15b3"


def test_module_parameters_running(host: Host, node: Node) -> None:
    """Loaded modules run with the site's parameters.

    The kernel ignores a parameter that a module lacks, so only /sys/module proves one.
    """
    wanted = list(_parameters(node))
    paths = [f"/sys/module/{module}/parameters/{name}" for module, name, _ in wanted]
    modules = sorted({module for module, _, _ in wanted})
    files = read_files(host, *(f"/sys/module/{each}/initstate" for each in modules), *paths)
    for (module, name, value), path in zip(wanted, paths, strict=True):
        if files.get(f"/sys/module/{module}/initstate") is None:
            continue  # it gets them when it is loaded: test_module_parameters_configured
        seen = files.value(path)
        if seen is None or not same_value(seen, value):
            Setting(node, module, name, _VARIABLE, where=path).reject(seen, value)


def test_module_parameters_configured(host: Host, node: Node) -> None:
    """Each module gets the site's parameters at its next load."""
    configuration = kernel_modules.read(host)
    for module, name, value in _parameters(node):
        seen, file = configuration.option(module, name) or (None, "/etc/modprobe.d")
        if seen is None or not same_value(seen, value):
            Setting(node, module, name, _VARIABLE, where=file, truth=CONFIGURED).reject(seen, value)


def test_module_parameters_after_reboot(host: Host, node: Node) -> None:
    """An initramfs that contains a module gives it the site's parameters."""
    wanted = list(_parameters(node))
    modules = sorted({module for module, _, _ in wanted})
    for path, image in initramfs.read(host, modules).items():
        for module, name, value in wanted:
            if module not in image.modules:
                continue  # loaded later, from the disk
            seen, file = image.configuration.option(module, name) or (None, "modprobe.d")
            if seen is None or not same_value(seen, value):
                Setting(
                    node, module, name, _VARIABLE, where=f"{file} in {path}", truth=AFTER_REBOOT
                ).reject(seen, value)


def test_firmware_version_running(host: Host, node: Node, rail: Rail) -> None:
    """The rail's NIC runs the site's firmware."""
    wanted = node.get("mlx5_firmware_version")
    if not wanted:
        not_applicable("mlx5_firmware_version is empty: any version is accepted")
    here = devices.read(host)
    rdma = rails.port_of(here, rail).require_rdma()
    path = f"{devices.INFINIBAND}/{rdma}/fw_ver"
    Setting(
        node, rdma, "firmware", "mlx5_firmware_version", where=path, look="mlxfwmanager --query"
    ).require(here.files.must(path), wanted)


def test_firmware_settings_running(host: Host, node: Node, rail: Rail) -> None:
    """The rail's NIC runs with the site's firmware settings."""
    for wanted, setting in _settings(host, node, rail):
        if not setting.current:
            not_applicable(f"{wanted.device}: this firmware does not show current values")
        if not firmware.is_value(setting.current, wanted.value):
            wanted.of(node, RUNNING).reject(setting.current, wanted.value)


def test_firmware_settings_after_reboot(host: Host, node: Node, rail: Rail) -> None:
    """The rail's NIC starts with the site's firmware settings."""
    for wanted, setting in _settings(host, node, rail):
        if not firmware.is_value(setting.next_boot, wanted.value):
            wanted.of(node, AFTER_REBOOT).reject(setting.next_boot, wanted.value)


@dataclass(frozen=True)
class _Wanted:
    """A firmware setting that a NIC must have, and the variable that says so."""

    device: str
    name: str
    value: object
    variable: str

    def of(self, node: Node, truth: str) -> Setting:
        fix = reboot(node) if truth == RUNNING else ""
        where = firmware.command(self.device)
        return Setting(node, self.device, self.name, self.variable, where, truth, fix)


def _parameters(node: Node) -> Iterator[tuple[str, str, str]]:
    """Yield module, parameter and value, as the site says."""
    parameters = node.get(_VARIABLE)
    if not parameters:
        not_applicable(f"{_VARIABLE}: {{}}")
    for module, values in parameters.items():
        for name, value in values.items():
            text = str(int(value)) if isinstance(value, bool) else str(value)
            yield module.replace("-", "_"), name, text


def _settings(
    host: Host, node: Node, rail: Rail
) -> Iterator[tuple[_Wanted, firmware.FirmwareSetting]]:
    """Yield what the site wants of each of a rail's NICs, of a profile what the NIC has."""
    own: dict[str, object] = node.get("mlx5_firmware_settings") or {}
    profiles = node.get("mlx5_firmware_profiles") or []
    if not own and not profiles:
        not_applicable("mlx5_firmware_settings: {}, mlx5_firmware_profiles: []")
    shared = firmware_profiles.settings(profiles)
    for port in lower_ports.read(host, rail):
        address = port.pci
        if not address or pci.Functions.read(host).vendor(address) != _MELLANOX:
            not_applicable(f"rail {rail.index} is not an NVIDIA NIC")
        seen = firmware.read(host, address, tuple(sorted(own)))
        wanted = [_Wanted(address, *each, "mlx5_firmware_settings") for each in own.items()]
        wanted += [
            _Wanted(address, name, value, "mlx5_firmware_profiles")
            for name, value in shared.items()
            if name in seen and name not in own
        ]
        if not wanted:
            not_applicable(f"{address}: its firmware has no setting of mlx5_firmware_profiles")
        for each in wanted:
            yield each, seen[each.name]
