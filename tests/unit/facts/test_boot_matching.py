"""For which device a link manager's file is, by the rules of its manual, and what the boot gives.

Manuals: systemd.link(5) and systemd.network(5) of 252, nm-settings-nmcli(5) and
NetworkManager.conf(5) of 1.42, netplan's YAML reference of 0.106. The cases of systemd's
[Match] in a .link file were given to `udevadm test-builtin net_setup_link` of 252, too.
"""

import shutil
import subprocess
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from plugins.module_utils.links import Links, netplan_get
from plugins.module_utils.links.networkd import Networkd
from plugins.module_utils.plan import NotYet, Plan, Refused
from plugins.module_utils.rails import Rail
from tests.roles.fake import FakeMachine
from tests.roles.links_node import with_network_manager, with_networkd
from tests.tables import cases
from tests.validate.fake_node import FakeNode

from rdmaprov.facts import link_files
from rdmaprov.facts.errors import CouldNotTell
from rdmaprov.facts.link_files import boot_settings, require_name
from rdmaprov.facts.text import Files

NET = "/sys/class/net/"
MAC, OTHER = "02:00:00:00:00:01", "02:00:00:00:00:99"
GUID = "80:00:00:28:fe:80:00:00:00:00:00:00:02:00:00:00:00:00:00:07"
PORTS = {
    "ens1": (MAC, "mlx5_core", "0000:18:00.0", "1"),
    "ens2": ("02:00:00:00:00:02", "mlx5_core", "0000:2a:00.0", "1"),
    "eno1": ("02:00:00:00:00:03", "ixgbe", "0000:02:00.0", "1"),
    "ibs3": (GUID, "mlx5_core", "0000:3a:00.0", "32"),
}
NODE = {
    f"{NET}{name}/{attribute}": text + "\n"
    for number, (name, (mac, driver, pci, kind)) in enumerate(PORTS.items(), 2)
    for attribute, text in {
        "address": mac,
        "addr_assign_type": "0",
        "device/uevent": f"DRIVER={driver}\nPCI_SLOT_NAME={pci}",
        "ifindex": str(number),
        "name_assign_type": "4",
        "type": kind,
        "uevent": f"INTERFACE={name}\nIFINDEX={number}",
    }.items()
}
UDEV = {"/run/udev/data/n2": "I:1\nE:ID_NET_DRIVER=mlx5_core\nE:ID_PATH=pci-0000:18:00.0\n"}
NODE["/run/udev/data/n5"] = "I:1\nE:ID_NET_DRIVER=mlx5_core[ib_ipoib]\n"
BOND = {
    f"{NET}bond0/address": MAC,
    f"{NET}bond0/type": "1",
    f"{NET}bond0/uevent": "DEVTYPE=bond\nINTERFACE=bond0",
    f"{NET}ens2/address": MAC,
    f"{NET}ens2/bonding_slave/perm_hwaddr": PORTS["ens2"][0],
}
ETC, RUN, LIB = (f"{each}/systemd/network" for each in ("/etc", "/run", "/usr/lib"))
NM, CONF = "/etc/NetworkManager/system-connections", "/etc/NetworkManager/conf.d"


def boot(files: dict[str, str], netdev: str = "ens1"):
    return boot_settings(Files({**NODE, **files}, {}), netdev)


def mtu(files: dict[str, str], netdev: str = "ens1"):
    """Return the MTU that a boot gives, or "unknown"."""
    try:
        return boot(files, netdev).mtu_bytes
    except CouldNotTell:
        return "unknown"


def network(match: str, mtu: str = "9000") -> str:
    return f"[Match]\n{match}\n[Link]\nMTUBytes={mtu}\n"


# systemd.network(5), section [Match]; what is no port's (Kind, a bond's MAC address) below.
NOT_KNOWN = ("Property=ID_VENDOR_ID=0x15b3\nName=ens1", "KernelCommandLine=rescue\nName=ens1")
MATCHES = [
    *((each, True) for each in cases(__file__, "for_it")),
    *((each, False) for each in cases(__file__, "for_others")),
    *((each, None) for each in NOT_KNOWN),
]


@pytest.mark.parametrize(("match", "is_for"), MATCHES)
def test_networkds_first_file_that_matches_counts(match: str, is_for: bool | None):
    files = {f"{LIB}/10-first.network": network(match, "1500")}
    files[f"{ETC}/20-rail.network"] = network("Name=ens1")
    assert mtu(files) == {True: 1500, False: 9000, None: "unknown"}[is_for]


@pytest.mark.parametrize("known", [UDEV, {}])
@pytest.mark.parametrize(
    ("match", "is_for"),
    [
        *((match, is_for) for match, is_for in MATCHES if "Name=" not in match and match),
        *(("OriginalName=*", True), ("OriginalName=e*\nDriver=mlx5_core", True)),
        *(("OriginalName=ib*", False), ("OriginalName=eno1", False), ("Name=ens1", False)),
        *(("OriginalName=eth0", None), ("OriginalName=ens1", None)),
        ("OriginalName=*\nProperty=DEVTYPE=vf", "only udev knows"),
    ],
)
def test_udevs_first_file_that_matches_sets_the_mtu_that_no_manager_sets(match, is_for, known):
    is_for = (False if known else None) if is_for == "only udev knows" else is_for
    files = {f"{ETC}/10-first.link": network(match, "9K"), **known}
    files[f"{LIB}/99-default.link"] = network("OriginalName=*", "1500")
    assert mtu(files) == {True: 9216, False: 1500, None: "unknown"}[is_for]
    named = {f"{NM}/a": "[connection]\ninterface-name=ens1\n[ethernet]\nmtu=4200\n"}
    assert mtu({**files, **named}) == 4200
    assert mtu({**files, f"{ETC}/a.network": network("Name=ens1", "4100")}) == 4100


@pytest.mark.parametrize("given", cases(__file__, "boots"), ids=lambda given: given["name"])
def test_files_give_a_device_its_mtu(given: dict[str, Any]):
    for more, wanted in given["steps"]:
        assert mtu({**given["files"], **more}, given.get("netdev", "ens1")) == wanted, more


def test_mtu_that_is_no_number_is_named():
    with pytest.raises(CouldNotTell, match="MTU 'jumbo' is not a number"):
        boot({f"{ETC}/20-rail.network": network("Name=ens1", "jumbo")})


def test_bond_and_its_ports_have_one_address_and_the_ports_their_own():
    by = {f"{ETC}/10-a.network": network(f"PermanentMACAddress={MAC}")}
    assert [mtu({**BOND, **by}, each) for each in ("bond0", "ens1", "ens2")] == [None, 9000, None]
    for match in ("Kind=bond", "Type=bond", "Driver=bonding", f"MACAddress={MAC}\nType=!ether"):
        found = [
            mtu({**BOND, f"{ETC}/a.network": network(match)}, each)
            for each in ("bond0", "ens1", "ens2")
        ]
        assert found == [9000, None, None], match


@pytest.mark.parametrize("path", [f"{RUN}/10-a.network", "/run/netplan/10-a.yaml"])
def test_file_in_run_may_not_be_there_after_a_boot(path: str):
    made = "network: {ethernets: {ens1: {mtu: 1500}}}"
    text = made if "netplan" in path else network("Name=ens1", "1500")
    kept = {f"{ETC}/20-rail.network": network("Name=ens1")}
    with pytest.raises(CouldNotTell, match=f"without {path}, and /run is empty after a boot"):
        boot({**kept, path: text})
    assert mtu({**kept, path: text.replace("1500", "9000")}) == 9000
    netplans = {f"{RUN}/10-netplan-ens1.network": network("Name=ens1", "1500")}
    assert mtu({**kept, **netplans}) == 9000


# netplan's YAML reference, "Properties for physical device types", match and set-name.
DEFINITIONS = cases(__file__, "definitions")


def ethernet(definition: str, mtu: int, name: str = "a", more: str = "") -> str:
    entry = f"{definition[:-1]}{', ' if definition != '{}' else ''}mtu: {mtu}}}"
    return f"network:\n  version: 2\n{more}  ethernets:\n    {name}: {entry}\n"


NAMED = [
    ("{match: {name: ens1}}", True),
    (f"{{match: {{macaddress: '{MAC}'}}, set-name: ens1}}", True),
]


@pytest.mark.parametrize(("definition", "is_for"), [*DEFINITIONS, *NAMED])
def test_netplans_first_definition_by_name_that_matches_counts(definition: str, is_for: bool):
    files = {"/etc/netplan/50-cloud-init.yaml": ethernet(definition, 1500)}
    files["/etc/netplan/90-rail.yaml"] = ethernet("{}", 9000, "ens1")
    assert mtu(files) == (1500 if is_for else 9000)
    files[f"{ETC}/05-admin.network"] = network("Driver=mlx5*", "4200")
    assert mtu(files) == 4200
    with_nm = ethernet(definition, 9000, more="  renderer: NetworkManager\n")
    if not any(each in definition for each in ("driver", "*", "set-name")):
        ours = {"/etc/netplan/50-cloud-init.yaml": with_nm}
        assert mtu({**ours, f"{CONF}/u.conf": "[keyfile]\nunmanaged-devices=*\n"}) == (
            9000 if is_for else None
        )


DEFAULT = {f"{LIB}/99-default.link": "[Match]\nOriginalName=*\n[Link]\nNamePolicy=keep path\n"}
BY_MAC = f"[Match]\nPermanentMACAddress={MAC}\n[Link]\nMTUBytes=9000\n"


@pytest.mark.parametrize(("files", "is_named"), cases(__file__, "names"))
def test_device_that_udev_would_leave_its_first_name_is_found(files, is_named):
    told = nullcontext() if is_named else pytest.raises(CouldNotTell, match="gives ens1 no name")
    with told:
        require_name(Files({**NODE, **DEFAULT, **files}, {}), "ens1")


def test_kernels_own_name_cannot_be_lost():
    named = {path.replace("ens1", "eth0"): text for path, text in NODE.items()}
    require_name(Files({**named, **DEFAULT, f"{ETC}/10-mtu.link": BY_MAC}, {}), "eth0")


def test_netplans_files_are_merged_by_name():
    base = {"/etc/netplan/50-a.yaml": ethernet("{match: {name: 'ens*'}}", 1500)}
    base["/etc/netplan/60-b.yaml"] = "network: {ethernets: {a: {addresses: [198.18.0.1/24]}}}"
    hidden = {"/usr/lib/netplan/50-a.yaml": ethernet("{match: {name: 'ens*'}}", 9000)}
    found = boot({**base, **hidden})
    assert (found.mtu_bytes, found.addresses) == (1500, ("198.18.0.1/24",))
    assert found.files == ("/etc/netplan/50-a.yaml", "/etc/netplan/60-b.yaml")
    bond = "network: {bonds: {bond0: {interfaces: [ens1], mtu: 9000}}, vlans: {v: {mtu: 4200}}}"
    found = [mtu({**BOND, "/etc/netplan/a.yaml": bond}, name) for name in ("bond0", "v", "ens1")]
    assert found == [9000, 4200, None]


@pytest.mark.skipif(not shutil.which("netplan"), reason="netplan is not installed")
def test_netplan_itself_takes_a_definition_for_the_same_devices(tmp_path: Path):
    """The files of `netplan generate`, and what the role makes of `netplan get`, against ours."""
    definitions = {f"d{number}": text for number, (text, _) in enumerate(DEFINITIONS)}
    entries = "".join(
        ethernet(text, 4000 + number, name).split("ethernets:\n")[1]
        for number, (name, text) in enumerate(definitions.items())
    )
    texts = {
        "/etc/netplan/a.yaml": f"network:\n  version: 2\n  ethernets:\n{entries}",
        "/etc/netplan/b.yaml": "network: {ethernets: {d1: {match: {driver: ixgbe}, mtu: 1234}}}",
    }
    for path, text in texts.items():
        file = tmp_path / path[1:]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o600)
    for command in ("generate", "get"):
        argv = ["netplan", command, "--root-dir", str(tmp_path)]
        told = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    written = {
        str(Path("/etc") / path.relative_to(tmp_path / "run")): path.read_text()
        for path in (tmp_path / "run/systemd/network").iterdir()
    }
    of_role = netplan_get.parse(told)
    for netdev, (mac, driver, _, kind) in PORTS.items():
        driver += "[ib_ipoib]" if kind == "32" else ""
        assert boot(texts, netdev).mtu_bytes == boot(written, netdev).mtu_bytes, netdev
        may_be = [each.name for each in of_role if each.may_be_for(netdev, mac, driver)]
        assert bool(may_be) == (boot(texts, netdev).mtu_bytes is not None), (netdev, may_be)


# Of these the role reads the keys; what else a file asks, it takes for met.
READ_BY_ROLE = ("Name=", "MACAddress=", "PermanentMACAddress=", "Driver=")
ONE, TWO = "Name=ens1", f"Name=ens1\nMACAddress={OTHER} {MAC}"


@pytest.fixture
def role_node(tmp_path: Path) -> FakeMachine:
    node = FakeMachine(tmp_path / "node")
    for path, text in NODE.items():
        node.put(path, text)
    for name, (_, driver, *_) in PORTS.items():
        node.put(f"/sys/bus/pci/drivers/{driver}/bind")
        node.link(f"{NET}{name}/device/driver", f"/sys/bus/pci/drivers/{driver}")
    return node


@pytest.mark.parametrize(
    ("match", "is_for"), [*MATCHES, ("Name=eno1\n[Match]\nName=ens1", True), ("Name=*\n", True)]
)
@pytest.mark.parametrize("directory", [ETC, "/usr/local/lib/systemd/network"])
def test_role_and_suite_find_networkds_file_for_the_same_devices(
    role_node: FakeMachine, match: str, is_for: bool | None, directory: str
):
    path = f"{directory}/10-admin.network"
    role_node.put(path, network(match))
    with_networkd(role_node)
    of_role = "ens1" in Networkd(role_node).disturbed({})
    assert of_role or is_for is False
    asked = [line for line in match.splitlines() if not line.startswith("[")]
    if all(line.startswith(READ_BY_ROLE) for line in asked):
        of_suite = [each for each in PORTS if mtu({path: network(match)}, each) == 9000]
        assert of_role == ("ens1" in of_suite) == is_for


@pytest.mark.parametrize(
    ("match", "is_alone"),
    [
        *((each, True) for each in (ONE, TWO, f"PermanentMACAddress={MAC}", "Name=ens1\nType=*")),
        *((f"Name=eno1\n{each}", False) for each in (ONE, "Name=e*", "Name=!ens2")),
        *(("Name=ens1 eno1", False), ("Name=eno1\n[Match]\nName=ens1", False)),
        *(("Name=eno1\nName=\nName=ens1", True), ("Driver=mlx5_core\nName=", False)),
    ],
)
def test_role_writes_beside_networkds_file_of_one_device_alone(role_node, match, is_alone):
    """And the suite reads the role's MTU, of this device only."""
    path = f"{ETC}/10-admin.network"
    role_node.put(path, network(match, "1500"))
    with_networkd(role_node)
    role_node.put("/run/systemd/netif/links/2", f"NETWORK_FILE={path}\n")
    plan = Plan(role_node)
    rail = Rail(0, "ens1", "mlx5_0", "", "", "")
    if not is_alone:
        with pytest.raises(Refused, match="configures more than this device"):
            Networkd(role_node).mtu(plan, rail, 9000)
        return
    Networkd(role_node).mtu(plan, rail, 9000)
    for step in plan.steps:
        step.do()
    files = {each: role_node.read(each) or "" for each in (path, f"{path}.d/rdmaprov-mtu.conf")}
    assert [mtu(files, each) for each in PORTS] == [9000, None, None, None]


def keyfile(connection: str, rest: str = "", mtu: str = "9000") -> str:
    kind = "" if "type=" in connection else "type=ethernet\n"
    return f"[connection]\n{kind}{connection}\n[ethernet]\nmtu={mtu}\n{rest}\n"


# nm-settings-nmcli(5): connection.type, interface-name; ethernet.mac-address; the setting match.
PROFILES = cases(__file__, "profiles")


@pytest.mark.parametrize(("connection", "rest", "is_for"), PROFILES)
def test_network_managers_profile_is_for_a_device_by_all_that_it_asks(connection, rest, is_for):
    files = {f"{NM}/a.nmconnection": keyfile(connection, rest)}
    assert mtu(files) == {True: 9000, False: None, None: "unknown"}[is_for]


@pytest.mark.parametrize("own_mtu", ["0", "1500", "9000"])
@pytest.mark.parametrize(("connection", "rest", "is_for"), PROFILES)
def test_role_and_suite_say_the_same_of_network_managers_mtu(
    role_node: FakeMachine, connection: str, rest: str, is_for: bool | None, own_mtu: str
):
    """The role asks nmcli, whose answers stand here for a profile that is, or is not, in use."""
    profile, default = f"{NM}/a.nmconnection", f"{CONF}/90-rdmaprov-mtu-ens1.conf"
    role_node.put(profile, keyfile(connection, rest, own_mtu))
    with_network_manager(role_node)
    in_use = "" if is_for is False else "a"
    role_node.programs["nmcli -g GENERAL.CONNECTION device show ens1"] = in_use + "\n"
    role_node.programs["nmcli -e no -g 802-3-ethernet.mtu connection show id a"] = own_mtu + "\n"
    plan = Plan(role_node)
    refuses = pytest.raises(NotYet, match="'a' sets MTU 1500, expected 9000")
    with refuses if in_use and own_mtu == "1500" else nullcontext():
        Links(role_node, "auto").of("ens1").mtu(plan, Rail(0, "ens1", "mlx5_0", "", "", ""), 9000)
    for step in plan.steps:
        step.do()
    files = {path: role_node.read(path) or "" for path in (profile, default)}
    seen = mtu({path: text for path, text in files.items() if text})
    assert seen == ("unknown" if is_for is None else 1500 if not plan.steps else 9000)


# NetworkManager.conf(5), "Device List Format".
LISTS = [
    *((each, True) for each in cases(__file__, "listed")),
    *((each, False) for each in cases(__file__, "not_listed")),
]


@pytest.mark.parametrize(("devices", "is_in"), [*LISTS, ("dhcp-plugin:dhclient", None)])
def test_network_managers_list_of_devices(devices: str, is_in: bool | None):
    wanted = {True: 9000, False: 1500, None: "unknown"}[is_in]
    default = "[connection]\nethernet.mtu=1500\n[connection-a]\nethernet.mtu=9000\nmatch-device="
    profile = {f"{NM}/a": keyfile("interface-name=ens1", mtu="0")}
    assert mtu({**profile, f"{CONF}/a.conf": f"{default}{devices}\n"}) == wanted
    unmanaged = f"[keyfile]\nunmanaged-devices={devices}\n"
    profile = {f"{NM}/a": keyfile("interface-name=ens1", mtu="1500")}
    assert mtu({**profile, f"{CONF}/a.conf": unmanaged}) == (None if is_in else wanted)


def test_masked_file_of_a_node_hides_the_packages(tmp_path: Path):
    node = FakeNode(tmp_path)
    for path, text in NODE.items():
        node.put(path, text)
    node.put(f"{LIB}/10-all.network", network("Name=*", "1500"))
    node.put(f"{ETC}/20-rail.network", network("Name=ens1"))
    assert boot_settings(link_files.read(node.host()), "ens1").mtu_bytes == 1500
    (tmp_path / f"{ETC[1:]}/10-all.network").symlink_to("/dev/null")
    assert boot_settings(link_files.read(node.host()), "ens1").mtu_bytes == 9000
    node.remove(f"{ETC}/10-all.network")
    node.put(f"{ETC}/10-all.network", "")
    assert boot_settings(link_files.read(node.host()), "ens1").mtu_bytes == 9000
