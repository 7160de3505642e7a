"""Roles, suite and discover read real machines as an expert does, and as each other.

The machines are in tests/fixtures/machines; docs/machines.md lists them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from plugins.module_utils import netdevs as role_netdevs
from plugins.module_utils import nic_firmware
from plugins.module_utils import pci as role_pci
from plugins.module_utils import rails as role_rails
from plugins.module_utils.plan import Unsupported
from tests.unit.helpers import museum
from tests.unit.helpers.museum import MACHINES, Museum
from tests.unit.helpers.museum_node import MuseumNode
from tests.unit.helpers.museum_readers import READERS
from tests.unit.helpers.museum_without_reader import NEVER, NO_READER, reason

from rdmaprov.facts import devices, firmware, pci, rails
from rdmaprov.facts.devices import NET
from rdmaprov.inventory import Rail

NAMES = museum.names()


@cache
def machine(name: str) -> Museum:
    return museum.load(MACHINES / name)


def facts() -> list[tuple[str, str]]:
    return [(name, key) for name in NAMES for key in machine(name).facts]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], MuseumNode]:
    """Return what makes a machine's node, once: readers change nothing."""
    place = tmp_path_factory.mktemp("museum")
    return cache(lambda name: MuseumNode(machine(name), place / name))


@pytest.fixture
def node(request: pytest.FixtureRequest, made: Callable[[str], MuseumNode]) -> MuseumNode:
    """Provide the made-up node of the machine that the test is for."""
    return made(request.getfixturevalue("name"))


@pytest.mark.parametrize(("name", "key"), facts())
def test_readers_say_what_the_expert_says(node: MuseumNode, name: str, key: str):
    wanted, said = wanted_of(name, key), {}
    if key in READERS:
        said = {reader: comparable(each) for reader, each in READERS[key](node, wanted).items()}
    why = reason(machine(name), key)
    if not said:
        assert why, f"nothing reads {key}: say why (not_read), or NO_READER"
    elif key in machine(name).not_read:
        assert said != dict.fromkeys(said, comparable(wanted)), "remove it from not_read"
    else:
        assert said == dict.fromkeys(said, comparable(wanted))


def wanted_of(name: str, key: str) -> Any:
    return machine(name).facts[key]


def comparable(value: Any) -> Any:
    """Return a value in which equal numbers are equal, and keys are texts."""
    if isinstance(value, dict):
        return {str(key): comparable(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [comparable(each) for each in value]
    return value


def test_facts_without_any_reader_are_in_no_table():
    assert not NEVER.keys() & READERS.keys()
    assert {*NEVER, *READERS} == set(museum.FACTS)


@pytest.mark.parametrize("name", NAMES)
def test_machine_has_a_fact_that_is_compared(node: MuseumNode, name: str):
    of = machine(name).facts
    read = [key for key in of if key in READERS and key not in machine(name).not_read]
    compared = [key for key in read if READERS[key](node, of[key])]
    assert compared, "no reader reads any fact of this machine"


@pytest.mark.parametrize(("key", "program"), NO_READER)
def test_reason_without_a_reader_is_of_a_machine(key: str, program: str):
    assert [n for n in NAMES if key in machine(n).facts and machine(n).printed(program)]


@pytest.mark.parametrize("name", NAMES)
def test_role_and_suite_read_the_same_firmware_settings(name: str):
    """Not only those that the expert names."""
    for tool in nic_firmware.TOOLS:
        for command in machine(name).printed(tool):
            role = nic_firmware.parse(command.stdout)
            suite = firmware.parse(command.stdout) if role else {}
            assert {n: (each.current, each.next_boot) for n, each in role.items()} == {
                n: (each.current, each.next_boot) for n, each in suite.items()
            }


@pytest.mark.parametrize("name", NAMES)
def test_role_and_suite_find_the_same_devices(node: MuseumNode, name: str):
    """Each network device's RDMA device and PCI address, and each GPU."""
    assert node.museum.name == name
    here = devices.read(node.host)
    for netdev in here.names(NET):
        if role_netdevs.master_of(node.machine, netdev):
            continue
        try:
            port = rails.port_of(here, Rail(0, netdev, "", None, "", ()))
        except rails.UnfitDevice:
            with pytest.raises(Unsupported):
                role_rails.find(node.machine, [{"netdev": netdev}])
            continue
        (rail,) = role_rails.find(node.machine, [{"netdev": netdev}])
        assert (rail.rdma, rail.pci) == (port.rdma, port.pci)
    gpus = {each.address for each in role_pci.gpus(node.machine)}
    assert gpus == set(pci.Functions.read(node.host).gpus())
