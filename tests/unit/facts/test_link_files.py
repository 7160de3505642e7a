"""What a boot gives a device, by files of its link manager that do not name it directly."""

import pytest
from tests.tables import cases

from rdmaprov.facts.errors import CouldNotTell
from rdmaprov.facts.link_files import boot_settings
from rdmaprov.facts.text import Files

NETPLAN = "/etc/netplan/50-cloud-init.yaml"
ADDRESS = "/sys/class/net/ens1/address"
PROFILES = "/etc/NetworkManager/system-connections"
OURS_OF_NM = f"{PROFILES}/rdmaprov-ens1.nmconnection"
DEFAULT = "/etc/NetworkManager/conf.d/90-rdmaprov-mtu-ens1.conf"
MTU_9000 = "[connection-rdmaprov-mtu-ens1]\nmatch-device=interface-name:=ens1\nethernet.mtu=9000\n"
IFCFG = "/etc/sysconfig/network-scripts/ifcfg-rail"


def boot(files: dict[str, str]):
    return boot_settings(Files({ADDRESS: "02:00:00:00:00:01\n", **files}, {}), "ens1")


def test_file_that_is_not_netplans_cannot_tell():
    with pytest.raises(CouldNotTell, match=r"50-cloud-init\.yaml: not netplan's YAML"):
        boot({NETPLAN: "network: {ethernets: [ens1]}"})


def keyfile(more: str = "", mtu: str = "") -> str:
    link = f"\n[ethernet]\nmtu={mtu}\n" if mtu else ""
    return (
        f"[connection]\nid=x\ninterface-name=ens1\n{more}{link}\n[ipv4]\naddress1=198.18.0.1/24\n"
    )


@pytest.mark.parametrize(("mtu", "seen"), [("1500", 1500), ("0", 9000), ("auto", 9000), ("", 9000)])
def test_network_managers_default_is_for_what_a_profile_leaves_open(mtu: str, seen: int):
    found = boot({f"{PROFILES}/rail.nmconnection": keyfile(mtu=mtu), DEFAULT: MTU_9000})
    assert (found.mtu_bytes, found.addresses) == (seen, ("198.18.0.1/24",))


def test_network_manager_activates_the_profile_of_the_highest_priority():
    files = {
        f"{PROFILES}/a.nmconnection": keyfile(mtu="1500").replace("198.18.0.1", "10.0.0.1"),
        OURS_OF_NM: keyfile("autoconnect-priority=999\n"),
    }
    found = boot({**files, DEFAULT: MTU_9000})
    assert (found.mtu_bytes, found.addresses) == (9000, ("198.18.0.1/24",))
    assert found.files == (OURS_OF_NM, DEFAULT)


def test_network_managers_profiles_of_one_priority_cannot_tell():
    files = {f"{PROFILES}/a.nmconnection": keyfile(), f"{PROFILES}/b.nmconnection": keyfile()}
    assert boot(files).addresses == ("198.18.0.1/24",)
    files[f"{PROFILES}/b.nmconnection"] = keyfile(mtu="1500")
    with pytest.raises(CouldNotTell, match="profiles of one priority differ"):
        boot(files)
    files[f"{PROFILES}/b.nmconnection"] = keyfile("autoconnect=false\n", mtu="1500")
    assert boot(files).mtu_bytes is None


def test_network_managers_profile_that_cannot_be_read_may_set_another_mtu():
    denied = {f"{PROFILES}/rail.nmconnection": "Permission denied"}
    with pytest.raises(CouldNotTell, match="Permission denied"):
        boot_settings(Files({DEFAULT: MTU_9000}, denied), "ens1")


@pytest.mark.parametrize("text", cases(__file__, "ifcfg_of_the_red_hat_family_is_a_profile"))
def test_ifcfg_of_the_red_hat_family_is_a_profile(text: str):
    found = boot({IFCFG: text, DEFAULT: MTU_9000, ADDRESS: "02:00:00:00:00:01\n"})
    assert (found.mtu_bytes, found.addresses) == (1500, ("198.18.0.1/24",))
    assert found.files == (IFCFG,)


def test_ifcfg_that_is_not_for_the_boot_or_for_another_device_is_none():
    other = "DEVICE=ens2\nHWADDR=02:00:00:00:00:09\nMTU=1500\n"
    for text in ("DEVICE=ens1\nMTU=1500\nONBOOT=no\n", other):
        assert boot({IFCFG: text, DEFAULT: MTU_9000}).mtu_bytes == 9000


def test_wicked_reads_the_file_of_the_devices_name():
    path = "/etc/sysconfig/network/ifcfg-ens1"
    text = "BOOTPROTO='static'\nSTARTMODE='auto'\nIPADDR='198.18.0.1/24'\nMTU='9000'\n"
    found = boot({path: text})
    assert (found.mtu_bytes, found.addresses, found.files) == (9000, ("198.18.0.1/24",), (path,))
    assert boot({path: text.replace("9000", "")}).mtu_bytes is None
