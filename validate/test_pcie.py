"""PCIe read request size, ACS, NUMA balancing, interrupt affinity, CPU governor."""

import json
from collections.abc import Mapping

import pytest
from testinfra.host import Host

from rdmaprov.facts import CouldNotTell, lower_ports, pci, peers, processors, sysctl, units
from rdmaprov.facts.text import read_files
from rdmaprov.facts.virtual_function import is_virtual_function
from rdmaprov.inventory import Node, Rail
from rdmaprov.validate.acs import require_acs_redirect_off
from rdmaprov.validate.verdict import AFTER_REBOOT, Setting, not_applicable

pytestmark = pytest.mark.state

_UNIT = "rdmaprov-pcie.service"
_DESCRIPTION = "/etc/rdmaprov/pcie.json"
_BALANCING = "/proc/sys/kernel/numa_balancing"
_POLICIES = "/sys/devices/system/cpu/cpufreq/policy*"
_DESCRIBED = (
    "max_read_request_bytes",
    "acs_redirect",
    "numa_balancing",
    "irq_affinity",
    "cpu_governor",
)


def test_max_read_request(host: Host, node: Node, rail: Rail) -> None:
    """The rail's NIC has the site's maximum read request size; reading it requires root."""
    if node.get("pcie_max_read_request_bytes") == "keep":
        not_applicable("pcie_max_read_request_bytes: keep")
    for address in _nics(host, rail):
        seen = pci.max_read_request(pci.config_spaces(host, [address])[address], address)
        if seen is None:
            not_applicable(f"{address} is not PCI Express")
        where = f"lspci -s {address} -vv"
        setting = Setting(node, address, "MaxReadReq bytes", "pcie_max_read_request_bytes", where)
        setting.require(seen, int(node.get("pcie_max_read_request_bytes")))


def test_acs_redirect_is_off_below_switches(host: Host, node: Node, rail: Rail) -> None:
    """No bridge between a NIC and a GPU below one PCIe switch redirects traffic to the root."""
    if node.get("pcie_acs_redirect") == "keep":
        not_applicable("pcie_acs_redirect: keep")
    bridges, _ = peers.bridges(peers.ways_to_gpus(host), peers.ways_to_nics(host, [rail]))
    if not bridges:
        not_applicable(f"rail {rail.index} has no GPU below the same PCIe switch")
    require_acs_redirect_off(host, node, bridges)


def test_numa_balancing_running(host: Host, node: Node) -> None:
    """Automatic NUMA balancing is on or off as the site states."""
    wanted = _wanted_balancing(node)
    seen = read_files(host, _BALANCING).value(_BALANCING)
    if seen is None and not wanted:
        not_applicable(f"this kernel has no NUMA balancing ({_BALANCING})")
    Setting(node, "kernel", "NUMA balancing", "pcie_numa_balancing", where=_BALANCING).require(
        None if seen is None else seen != "0", wanted
    )


def test_numa_balancing_after_reboot(host: Host, node: Node) -> None:
    """No sysctl file sets another NUMA balancing than the site's."""
    wanted = _wanted_balancing(node)
    found = sysctl.at_boot(read_files(host, *sysctl.PATHS)).get(_BALANCING)
    if found is not None:
        fix = f"remove the line from {found[1]}"
        setting = Setting(
            node, "kernel", "NUMA balancing", "pcie_numa_balancing", found[1], AFTER_REBOOT, fix=fix
        )
        setting.require(found[0] != "0", wanted)


def _wanted_balancing(node: Node) -> bool:
    """Return whether NUMA balancing must be on; skip where the site leaves it."""
    if node.get("pcie_numa_balancing") == "keep":
        not_applicable("pcie_numa_balancing: keep")
    return bool(node.get("pcie_numa_balancing") == "on")


def test_interrupts_run_on_own_numa_node(host: Host, node: Node, rail: Rail) -> None:
    """The rail's interrupts run on CPUs of its own NUMA node."""
    if node.get("pcie_irq_affinity") != "local":
        not_applicable(f"pcie_irq_affinity: {node.get('pcie_irq_affinity')}")
    for port in lower_ports.read(host, rail):
        if not port.pci:
            not_applicable(f"rail {rail.index} is not on PCI")
        _require_near(host, node, port.pci)


def _require_near(host: Host, node: Node, address: str) -> None:
    seen = processors.read(host, address)
    if len(seen.processors) < 2:
        not_applicable("the node has one NUMA node")
    numa_node = pci.Functions.read(host).numa_node(address)
    if numa_node not in seen.processors:
        raise CouldNotTell(f"{address}: the firmware does not report its NUMA node ({numa_node})")
    near = seen.processors[numa_node]
    if not near:
        not_applicable(f"NUMA node {numa_node} has no processors")
    for number, on in seen.affinities.items():
        if not on <= near:
            name = f"processors of interrupt {number}"
            setting = Setting(
                node, address, name, "pcie_irq_affinity", f"/proc/irq/{number}/smp_affinity_list"
            )
            setting.reject(sorted(on), f"those of NUMA node {numa_node}")


def test_cpu_governor(host: Host, node: Node) -> None:
    """All CPUs have the site's frequency governor."""
    wanted = node.get("pcie_cpu_governor")
    if wanted == "keep":
        not_applicable("pcie_cpu_governor: keep")
    pattern = r"/sys/devices/system/cpu/cpufreq/(policy\d+)/scaling_governor"
    found = list(read_files(host, f"{_POLICIES}/scaling_governor").matching(pattern))
    if not found:
        not_applicable(
            "the kernel does not scale CPU frequencies (/sys/devices/system/cpu/cpufreq)"
        )
    for match, seen in found:
        Setting(node, match[1], "frequency governor", "pcie_cpu_governor", where=match[0]).require(
            seen, wanted
        )


def test_unit_is_enabled_after_reboot(host: Host, node: Node) -> None:
    """The unit that restores the PCIe settings starts at boot."""
    where = f"systemctl show {_UNIT}"
    setting = Setting(node, _UNIT, "unit", "pcie_max_read_request_bytes", where, AFTER_REBOOT)
    setting.require(units.state_after_reboot(host, _UNIT), "enabled")


def test_settings_after_reboot(host: Host, node: Node) -> None:
    """The unit sets the site's values at boot."""
    text = read_files(host, _DESCRIPTION).get(_DESCRIPTION)
    try:
        seen: Mapping[str, object] = {} if text is None else json.loads(text)
    except ValueError as error:
        raise CouldNotTell(f"{_DESCRIPTION}: not JSON") from error
    for name in _DESCRIBED:
        Setting(
            node, "kernel", name, f"pcie_{name}", where=_DESCRIPTION, truth=AFTER_REBOOT
        ).require(seen.get(name), node.get(f"pcie_{name}"))


def _nics(host: Host, rail: Rail) -> list[str]:
    """Return the PCI addresses of a rail's ports that have registers of their own."""
    for port in lower_ports.read(host, rail):
        if not port.pci:
            not_applicable(f"rail {rail.index} is not on PCI")
        if pci.Functions.read(host).vendor(port.pci) == pci.VIRTIO:
            not_applicable(f"rail {rail.index} is virtio, which makes no PCIe read requests")
        if is_virtual_function(host, port):
            not_applicable(
                f"rail {rail.index} is a virtual function; the physical function's value counts"
            )
    return [port.pci for port in lower_ports.read(host, rail)]
