"""Registers of PCI functions: read as lspci reads them, changed only where they must be."""

import re
from pathlib import Path

import pytest
from plugins.module_utils.machine import NodeError
from plugins.module_utils.pci import Function, functions, gpus
from plugins.module_utils.plan import Refused
from plugins.module_utils.torch import proof
from tests.roles import config_space
from tests.roles.fake import FakeMachine
from tests.tables import cases

FIXTURES = Path(__file__).parents[1] / "fixtures" / "lspci"
NIC = "0000:1a:00.0"
WHERE = f"pci0000:17/0000:17:01.0/{NIC}"


def function(machine: FakeMachine, space: bytes) -> Function:
    config_space.put(machine, WHERE, space)
    return Function(machine, NIC)


@pytest.mark.parametrize(
    ("name", "read_request", "payload"),
    [("plx8796-upstream", 128, 256), ("qemu-root-port", 128, 128), ("qemu-virtio-net", 128, 128)],
)
def test_function_is_read_as_lspci_reads_it(machine, name, read_request, payload):
    seen = function(machine, config_space.captured(FIXTURES / f"{name}.txt"))
    assert (seen.read_request(), seen.payload()) == (read_request, payload)
    assert seen.redirects() == []


def test_redirects_of_a_real_port_are_where_it_has_them(machine: FakeMachine):
    text = (FIXTURES / "qemu-root-port.txt").read_text()
    at = re.search(r"Capabilities: \[([0-9a-f]+) v1\] Access Control Services", text)
    assert at is not None
    space = bytearray(config_space.captured(FIXTURES / "qemu-root-port.txt"))
    control = int(at[1], 16) + 6
    space[control : control + 2] = b"\x5d\x00"  # all that its ACSCap has
    port = function(machine, bytes(space))
    assert port.redirects() == ["ReqRedir", "CmpltRedir"]
    port.redirect_off()
    assert config_space.word(machine, NIC, control) == 0x51


@pytest.mark.parametrize("wanted", [128, 256, 512, 1024, 2048, 4096])
def test_only_the_bits_of_the_read_request_change(machine: FakeMachine, wanted: int):
    nic = function(machine, config_space.made_up(512))
    assert nic.read_request() == 512
    before = config_space.word(machine, NIC, config_space.CONTROL)
    nic.set_read_request(wanted)
    assert nic.read_request() == wanted
    assert (before ^ config_space.word(machine, NIC, config_space.CONTROL)) & ~0x7000 == 0
    assert nic.payload() == 256


def test_only_the_bits_of_redirects_change(machine: FakeMachine):
    bridge = function(machine, config_space.made_up(acs=0x7F))
    assert bridge.redirects() == ["ReqRedir", "CmpltRedir", "EgressCtrl"]
    bridge.redirect_off()
    assert bridge.redirects() == []
    assert config_space.word(machine, NIC, config_space.ACS_CONTROL) == 0x7F & ~0x2C


def test_function_that_is_not_express_has_no_read_request(machine: FakeMachine):
    assert function(machine, bytes(256)).read_request() is None
    assert function(machine, bytes(256)).redirects() == []


def test_list_of_capabilities_that_is_a_circle_ends(machine: FakeMachine):
    space = bytearray(config_space.made_up(acs=0))
    space[0x60:0x62] = b"\x01\x60"
    space[0x102:0x104] = b"\x01\x10"
    assert function(machine, bytes(space)).read_request() is None
    assert function(machine, bytes(space)).redirects() == []


def test_register_or_function_that_cannot_be_read_is_an_error(machine: FakeMachine):
    with pytest.raises(NodeError, match="config cannot be read: No such file"):
        Function(machine, NIC).redirects()
    with pytest.raises(NodeError, match="config: the device does not answer"):
        function(machine, b"\xff" * 4096).read_request()
    with pytest.raises(NodeError, match="config ends before 0x60: does the user have root"):
        function(machine, config_space.made_up()[:64]).read_request()


def test_bridges_are_those_above(machine: FakeMachine):
    assert function(machine, config_space.made_up()).bridges == ["0000:17:01.0"]


def test_bond_has_the_functions_of_its_ports(machine: FakeMachine):
    machine.nic("ens1", "0000:18:00.0")
    machine.nic("ens2", "0000:18:00.1")
    machine.nic("bond0")
    for name in ("ens1", "ens2"):
        machine.link(f"/sys/devices/virtual/net/bond0/lower_{name}", f"/sys/class/net/{name}")
    found = [each.address for each in functions(machine, "bond0")]
    assert found == ["0000:18:00.0", "0000:18:00.1"]


def test_gpus_are_those_of_their_makers(machine: FakeMachine):
    space = config_space.made_up()
    for slot, vendor, kind in cases(__file__, "gpus"):
        address = f"0000:0{slot}:00.0"
        config_space.put(machine, f"pci0000:00/{address}", space, vendor=vendor, **{"class": kind})
    found = [each.address for each in gpus(machine)]
    assert found == ["0000:01:00.0", "0000:04:00.0", "0000:05:00.0"]


VARIABLE = "torch_runtime_requirements"
DIGEST = "a" * 64


@pytest.mark.parametrize(
    ("line", "seen", "met"), cases(__file__, "version_is_compared_as_pip_does")
)
def test_version_is_compared_as_pip_does(line: str, seen: str, met: bool):
    assert proof.parse([line], VARIABLE)[0].is_met_by(seen) is met


@pytest.mark.parametrize(("lines", "message"), cases(__file__, "wrong_pin_is_refused"))
def test_wrong_pin_is_refused(lines: list[str], message: str):
    with pytest.raises(Refused, match=message):
        proof.parse(lines, VARIABLE)


def test_names_are_compared_without_their_spelling():
    pin = proof.parse(["Typing_Extensions==4.1"], VARIABLE)[0]
    assert (pin.name, pin.hashed) == ("typing-extensions", False)
