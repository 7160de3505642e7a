"""Roles, suite and discover read real machines as an expert does, and as each other."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from plugins.module_utils import netdevs as role_netdevs
from plugins.module_utils import nic_firmware
from plugins.module_utils import pci as role_pci
from plugins.module_utils import rails as role_rails
from plugins.module_utils.plan import Unsupported
from tests.tables import cases
from tests.unit.helpers import museum
from tests.unit.helpers.museum import MACHINES, Museum, WrongMachine
from tests.unit.helpers.museum_node import MuseumNode
from tests.unit.helpers.museum_readers import READERS

from rdmaprov.facts import devices, firmware, pci, rails
from rdmaprov.facts.devices import NET
from rdmaprov.inventory import Rail

NEVER = {
    "gids": "free text, for people: an address's GID is looked up, never listed",
    "buffer_manual": "no check and no role asks who sized the receive buffers",
}
# By the reason: what a program says to people, as fact/program, and is asked by none of ours.
_NO_READER = {
    "readers ask the RDMA device in sysfs, which no capture here shows": "firmware/dmesg"
    " firmware/ethtool firmware/flint psid/ethtool psid/flint link_layer/lspci link_layer/mst"
    " link_layer/ibdev2netdev link_layer/rdma link_layer/cat port_state/ip",
    "readers ask the PCI function in sysfs, which no capture here shows": "pcie/dmesg pcie/mlxlink",
    "present and largest link are read together; one of them is not shown": "pcie/lspci",
    "a bond's ports and mode are in sysfs, which no capture here shows": "bond/ip",
    "the role reads /etc/os-release": "os/lsb_release os/uname",
    "ofed_info -s names the vendor's, and was not captured": "ofed/ethtool ofed/ibstat ofed/rpm",
}
NO_READER = {tuple(at.split("/")): why for why, all_ in _NO_READER.items() for at in all_.split()}


def reason(machine: Museum, key: str) -> str:
    programs = {each.argv[0].rpartition("/")[2] for each in machine.commands}
    general = [why for (of, program), why in NO_READER.items() if of == key and program in programs]
    return NEVER.get(key) or machine.not_read.get(key) or next(iter(general), "")


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


ROOT = Path(__file__).resolve().parents[3]
GOOD = cases(__file__, "good")
# Cards, systems and shapes of which the museum must have a machine.
REQUIRED = (
    "cx5", "cx6", "cx6lx", "cx7", "cx8", "bf2", "bf3", "dpu-mode", "vf", "lag", "grace", "amd-gpu",
    "dgx-os", "ubuntu-22.04", "ubuntu-24.04", "rhel9", "rocky", "sles", "vlan", "dcb",
)  # fmt: skip


def written(tmp_path: Path, **changed: object) -> Path:
    directory = tmp_path / "a-node"
    directory.mkdir()
    (directory / "ofed.txt").write_text("OFED-internal-25.07-0.9.7:\n")
    document = {key: each for key, each in {**GOOD, **changed}.items() if each is not None}
    (directory / "machine.yml").write_text(yaml.safe_dump(document))
    return directory


def test_machine_is_loaded(tmp_path: Path):
    machine = museum.load(written(tmp_path, taught="once"))
    assert machine.printed("ofed_info")[0].stdout == "OFED-internal-25.07-0.9.7:\n"
    assert machine.facts == {"ofed": "doca"}
    assert machine.files == {"/proc/cmdline": "quiet\n"}
    assert machine.taught == ("once",)


@pytest.mark.parametrize(("changed", "why"), cases(__file__, "other_forms_are_refused"))
def test_other_forms_are_refused(tmp_path: Path, changed: dict[str, object], why: str):
    directory = written(tmp_path, **changed)
    with pytest.raises(WrongMachine, match=why):
        museum.load(directory)


def test_directory_without_a_machine_is_refused(tmp_path: Path):
    with pytest.raises(WrongMachine, match="there is no such file"):
        museum.load(tmp_path)
    (tmp_path / "machine.yml").write_text("a: [")
    with pytest.raises(WrongMachine, match="while parsing"):
        museum.load(tmp_path)


def test_museum_has_the_classes_that_it_must_have():
    machines = [museum.load(museum.MACHINES / name) for name in museum.names()]
    assert len(machines) >= 25
    assert set(REQUIRED) <= {each for machine in machines for each in machine.shows}
    assert len([each for each in machines if each.taught]) >= 5
