"""Each GPU uses the nearest rail: on its NUMA node, and below its PCIe switch if there is one."""

import pytest
from testinfra.host import Host

from rdmaprov.facts import devices, lower_ports, pci, rails
from rdmaprov.facts.devices import Devices
from rdmaprov.inventory import Node, Rail
from rdmaprov.validate.verdict import Setting, not_applicable

pytestmark = pytest.mark.state


def test_gpu_is_on_the_rails_numa_node(host: Host, node: Node, rail: Rail) -> None:
    """The GPUs that use the rail are on its NUMA node."""
    functions = pci.Functions.read(host)
    gpus = _gpus(node, rail, functions)
    for port in lower_ports.read(host, rail):
        for index, gpu in gpus.items():
            name, where = f"NUMA node of GPU {index} ({gpu})", f"{devices.PCI}/{gpu}/numa_node"
            setting = Setting(
                node, port.pci, name, "fabric_rails[].gpus", where, look="nvidia-smi topo -m"
            )
            setting.require(functions.numa_node(gpu), functions.numa_node(port.pci))


def test_no_other_rail_is_nearer_to_the_gpu(host: Host, node: Node, rail: Rail) -> None:
    """No other rail shares more PCIe bridges with a GPU than the rail that the GPU uses."""
    here = devices.read(host)
    shared = {each.index: _way(here, each) for each in node.compute_rails}
    for index, gpu in _gpus(node, rail, pci.Functions.read(host)).items():
        way = here.pci_of(f"{devices.PCI}/{gpu}")
        near = {number: _common(way, other) for number, other in shared.items()}
        best = max(near.values())
        nearest = [number for number, length in near.items() if length == best]
        if rail.index not in nearest:
            where, look = f"{devices.PCI} (nvidia-smi topo -m)", "nvidia-smi topo -m"
            setting = Setting(
                node, f"GPU {index} ({gpu})", "rail", "fabric_rails[].gpus", where, look=look
            )
            setting.reject(rail.index, f"{nearest[0]}, below the same PCIe switch")


def _gpus(node: Node, rail: Rail, functions: pci.Functions) -> dict[int, str]:
    """Return PCI addresses of the GPUs that use a rail, by their index."""
    if not rail.gpus:
        not_applicable(f"the site lists no GPU on rail {rail.index}")
    there = functions.gpus()
    for index in rail.gpus:
        if index >= len(there):
            name = "PCI device"
            setting = Setting(
                node, f"GPU {index}", name, "fabric_rails[].gpus", devices.PCI, look="lspci -nn"
            )
            setting.reject(None, "present")
    return {index: there[index] for index in rail.gpus}


def _way(here: Devices, rail: Rail) -> list[str]:
    return rails.way_to(here, lower_ports.ports_of(here, rail)[0])


def _common(one: list[str], other: list[str]) -> int:
    """Return how many bridges two ways have in common, from the root on."""
    length = 0
    while length < min(len(one), len(other)) and one[length] == other[length]:
        length += 1
    return length
