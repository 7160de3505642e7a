"""The rails' cables and transceivers, by mlxlink: a bad one is seen before it drops packets."""

import pytest
from testinfra.host import Host

from rdmaprov.facts import cables, devices, lower_ports, pci, rails
from rdmaprov.facts.cables import LinkModule
from rdmaprov.facts.errors import NotInstalled
from rdmaprov.facts.rails import Port
from rdmaprov.facts.virtual_function import is_virtual_function
from rdmaprov.inventory import Node, Rail
from rdmaprov.validate.verdict import Setting, not_applicable

pytestmark = pytest.mark.links

# IEEE 802.3 and the IBTA specification both ask for a bit error ratio of 1e-12 or better.
_BIT_ERROR_RATIO = 1e-12
# What mlxlink says of a good link, and where its firmware says nothing (mstflint mlxlink/modules).
_NO_ADVICE = frozenset({"No issue was observed", "N/A", ""})
_MELLANOX = "0x15b3"


def test_module_is_within_its_limits(host: Host, node: Node, rail: Rail) -> None:
    """Temperature, voltage and the light of each lane are within the module's own limits."""
    for port, cable in _cables(host, node, rail):
        for reading in cable.readings:
            if not reading.is_within_limits:
                seen = ", ".join(f"{value:g}" for value in reading.values)
                name = f"{reading.name} of {cable.part or 'the module'} {cable.serial}".rstrip()
                limits = f"{reading.low:g} to {reading.high:g}"
                _setting(node, port, name).reject(seen, limits)


def test_link_has_no_known_issue(host: Host, node: Node, rail: Rail) -> None:
    """The NIC's own diagnosis of the link has no issue."""
    for port, cable in _cables(host, node, rail):
        if cable.advice not in _NO_ADVICE:
            _setting(node, port, "diagnosis").reject(cable.advice, "no issue")


def test_bits_are_right_after_correction(host: Host, node: Node, rail: Rail) -> None:
    """After error correction, the link keeps the bit error ratio of a good one."""
    for port, cable in _cables(host, node, rail):
        ratio = cable.error_ratio
        if ratio is not None and ratio > _BIT_ERROR_RATIO:
            _setting(node, port, "effective bit error ratio").reject(
                f"{ratio:g}", f"at most {_BIT_ERROR_RATIO:g}"
            )


def _cables(host: Host, node: Node, rail: Rail) -> list[tuple[Port, LinkModule]]:
    """Return the cable of each of a rail's ports; all of the node's are asked at once."""
    here, functions = devices.read(host), pci.Functions.read(host)
    addresses: list[str] = []
    for each in node.rails:
        try:
            addresses += [port.pci for port in lower_ports.ports_of(here, each) if port.pci]
        except rails.NoDevice:
            continue  # its own tests say so
    nvidia = [each for each in dict.fromkeys(addresses) if functions.vendor(each) == _MELLANOX]
    found = []
    for port in lower_ports.ports_of(here, rail):
        if port.pci not in nvidia:
            not_applicable(f"rail {rail.index} is not an NVIDIA NIC, which mlxlink reads")
        if is_virtual_function(host, port):
            not_applicable(f"{port.label} is a virtual function; its host sees the cable")
        try:
            found.append((port, cables.read(host, nvidia, port.pci)))
        except NotInstalled:
            not_applicable("mlxlink is not installed (MFT, or mstlink of mstflint)")
    return found


def _setting(node: Node, port: Port, name: str) -> Setting:
    command = f"mlxlink -d {port.pci} -m -c"
    look = f"{command}, then clean or replace the cable"
    return Setting(node, port.label, name, "", command, look=look)
