"""What the link managers do with an administrator's files: left alone, refused, or beside ours."""

from __future__ import annotations

import pytest
from plugins.module_utils.machine import NodeError
from plugins.module_utils.plan import Refused
from tests.roles.fake import FakeMachine
from tests.roles.links_node import STATE, apply, one_rail, with_ifupdown, with_networkd


@pytest.fixture
def node(machine: FakeMachine) -> FakeMachine:
    return one_rail(machine)


def test_ifupdown_that_reads_no_other_files_is_refused(node: FakeMachine):
    with_ifupdown(node)
    node.put("/etc/network/interfaces", "auto lo\n")
    with pytest.raises(Refused, match=r"Write: source /etc/network/interfaces\.d/\*"):
        apply(node)


def test_stanza_of_an_admins_is_refused(node: FakeMachine):
    with_ifupdown(node, "iface ens1 inet dhcp\n")
    with pytest.raises(Refused, match=r"interfaces configures it \(iface ens1 \.\.\. dhcp\)"):
        apply(node)


def test_drop_in_of_ours_goes_beside_the_admins_file(node: FakeMachine):
    node.put("/etc/systemd/network/10-rail.network", "[Match]\nMACAddress=02:00:00:00:00:01\n")
    with_networkd(node, "NETWORK_FILE=/etc/systemd/network/10-rail.network\n")
    apply(node)
    text = node.read("/etc/systemd/network/10-rail.network.d/rdmaprov-fabric.conf") or ""
    assert "[Network]\nConfigureWithoutCarrier=yes\nAddress=198.18.0.1/24\n" in text
    assert not node.exists("/etc/systemd/network/20-rdmaprov-ens1.network")


def test_admins_file_with_another_address_is_refused(node: FakeMachine):
    text = "[Match]\nName=ens1\n[Network]\nAddress=1.2.3.4/8\n"
    node.put("/etc/systemd/network/10-rail.network", text)
    with_networkd(node, "NETWORK_FILE=/etc/systemd/network/10-rail.network\n")
    with pytest.raises(Refused, match=r"gives it 1\.2\.3\.4/8, expected 198\.18\.0\.1/24"):
        apply(node)


@pytest.mark.parametrize("match", ["Name=en*", "Name=ens1 ens2", "Name=!eno1", "Type=ether"])
def test_admins_file_for_several_devices_is_refused(node: FakeMachine, match: str):
    node.put("/etc/systemd/network/10-all.network", f"[Match]\n{match}\n[Network]\nDHCP=yes\n")
    with_networkd(node, "NETWORK_FILE=/etc/systemd/network/10-all.network\n")
    with pytest.raises(Refused, match=r"10-all\.network configures more than this device"):
        apply(node)


def test_later_file_for_several_devices_gives_way(node: FakeMachine):
    node.put("/usr/lib/systemd/network/99-all.network", "[Match]\nName=en*\n")
    with_networkd(node, "NETWORK_FILE=/usr/lib/systemd/network/99-all.network\n")
    own = "/etc/systemd/network/20-rdmaprov-ens1.network"

    def reload(argv: list[str]) -> str:
        node.put(STATE, f"NETWORK_FILE={own}\n")
        return " ".join(argv)

    node.programs["networkctl reload"] = reload
    apply(node)
    assert "Name=ens1" in (node.read(own) or "")


def test_file_that_networkd_does_not_use_is_an_error(
    node: FakeMachine, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("plugins.module_utils.links.networkd._SETTLE_S", 0)
    with_networkd(node)
    with pytest.raises(
        NodeError, match="ens1: systemd-networkd uses no file, expected /etc/systemd"
    ):
        apply(node)


def test_file_of_a_device_that_is_no_rail_any_more_goes(node: FakeMachine):
    with_ifupdown(node)
    node.put("/etc/network/interfaces.d/rdmaprov-fabric-ens9", "auto ens9\n")
    node.put("/etc/network/interfaces.d/admins", "auto eno1\n")
    apply(node)
    assert node.names("/etc/network/interfaces.d") == ["admins", "rdmaprov-fabric-ens1"]
