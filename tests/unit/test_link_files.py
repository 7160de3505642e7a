"""What a boot gives a device, by files of its link manager that do not name it directly."""

from __future__ import annotations

import pytest

from rdmaprov.facts.errors import CouldNotTell
from rdmaprov.facts.link_files import boot_settings
from rdmaprov.facts.text import Files

NETPLAN = "/etc/netplan/50-cloud-init.yaml"
OURS = "/etc/netplan/90-rdmaprov-ens1.yaml"
NETWORK = "/etc/systemd/network/10-rail.network"
ADDRESS = "/sys/class/net/ens1/address"


def boot(files: dict[str, str]):
    return boot_settings(Files(files, {}), "ens1")


@pytest.mark.parametrize(
    "definition",
    [
        "ethernets: {ens1: {mtu: 9000}}",
        "ethernets: {rail0: {match: {macaddress: '02:00:00:00:00:01'}, set-name: ens1, mtu: 9000}}",
        "ethernets: {rail0: {match: {name: ens1}, mtu: 9000}}",
        "bonds: {ens1: {interfaces: [eno1], mtu: 9000}}",
    ],
)
def test_netplan_may_call_a_device_by_another_name(definition: str):
    found = boot({NETPLAN: f"network:\n  version: 2\n  {definition}\n"})
    assert (found.mtu_bytes, found.files) == (9000, (NETPLAN,))


def test_netplans_definition_is_that_of_our_file():
    theirs = "network: {ethernets: {rail0: {match: {macaddress: '02:00:00:00:00:01'}, mtu: 9000}}}"
    ours = "network: {ethernets: {rail0: {addresses: [198.18.0.1/24]}}}"
    found = boot({NETPLAN: theirs, OURS: ours})
    assert (found.mtu_bytes, found.addresses) == (9000, ("198.18.0.1/24",))


def test_netplans_other_devices_are_not_this_one():
    text = "network: {ethernets: {rail1: {match: {name: ens2}, mtu: 9000}, ens3: {mtu: 9000}}}"
    assert boot({NETPLAN: text}).mtu_bytes is None


def test_file_that_is_not_netplans_cannot_tell():
    with pytest.raises(CouldNotTell, match=r"50-cloud-init\.yaml: not netplan's YAML"):
        boot({NETPLAN: "network: {ethernets: [ens1]}"})


@pytest.mark.parametrize("key", ["MACAddress", "PermanentMACAddress"])
@pytest.mark.parametrize("value", ["02:00:00:00:00:01", "02-00-00-00-00-01 02:00:00:00:00:09"])
def test_networkd_may_match_a_device_by_its_mac_address(key: str, value: str):
    text = f"[Match]\n{key}={value}\n[Link]\nMTUBytes=9000\n"
    assert boot({NETWORK: text, ADDRESS: "02:00:00:00:00:01\n"}).mtu_bytes == 9000
    assert boot({NETWORK: text, ADDRESS: "02:00:00:00:00:02\n"}).mtu_bytes is None
    named = text.replace("[Link]", "Name=ens2\n[Link]")
    assert boot({NETWORK: named, ADDRESS: "02:00:00:00:00:01\n"}).mtu_bytes is None
