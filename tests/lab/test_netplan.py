"""netplan as a node's link manager: files that it does not take, and an admin's own definition.

The management NIC is systemd-networkd's, by a file of its own, so a node whose netplan files are
broken still answers; but in the last test, where it is netplan's.
"""

from __future__ import annotations

import pytest
import yaml
from tests.lab.play import Play

pytestmark = pytest.mark.lab

NODE = "node1"  # Debian 12: netplan.io 0.106
TOUCHES = (NODE,)
ADMINS = "/etc/netplan/50-admin.yaml"
# Files of netplan and of the renderer, marks of files that were not read, and addresses.
SEEN = (
    "cd /; for each in etc/netplan/* run/systemd/network/*-netplan-* run/rdmaprov/unread/*/*; do "
    'if [ -f "$each" ]; then echo "== $each"; cat "$each"; fi; done; ip -br -4 address'
)


@pytest.fixture
def fabric(lab, tmp_path):
    return Play(lab, tmp_path, "fabric", NODE)


def write(lab, path, text):
    lab.run(NODE, f"umask 077; mkdir -p /etc/netplan; cat > {path} <<'END'\n{text}END")


def settled(lab):
    """Return the IPv4 addresses of the rails, once networkd has configured them."""
    names = " ".join(lab.netdev(NODE, rail) for rail in (0, 1))
    shown = lab.run(
        NODE,
        f"for each in {names}; do for i in 1 2 3 4 5 6 7 8 9 10; do "
        "ip -4 address show dev $each | grep -q inet && break; sleep 1; done; "
        "ip -br -4 address show dev $each; done",
    )
    return [line.split()[2] for line in shown.splitlines()]


@pytest.mark.hours
def test_broken_file_of_the_admins_is_refused_and_the_node_boots(lab, fabric):
    write(lab, ADMINS, "network:\n  version: 2\n  ethernets:\n    eno9:\n      adresses: []\n")
    before = lab.run(NODE, SEEN)
    assert fabric.run({}).returncode != 0, fabric.said
    for each in ("netplan rejects", f"{ADMINS}:5:", "Nothing was changed"):
        assert each in fabric.said
    assert lab.run(NODE, SEEN) == before
    lab.must("reboot", NODE)
    assert lab.run(NODE, "ls /etc/netplan") == "50-admin.yaml\n"
    write(lab, ADMINS, "network:\n  version: 2\n")
    assert fabric.changes({})
    assert settled(lab) == ["198.18.0.1/24", "198.18.1.1/24"]


@pytest.mark.hours
def test_rail_keeps_the_admins_definition_over_a_reboot(lab, fabric, tmp_path):
    """It has another name there, and an MTU that the role fabric does not set."""
    netdev = lab.netdev(NODE, 0)
    mac = lab.run(NODE, f"cat /sys/class/net/{netdev}/address").strip()
    write(
        lab,
        ADMINS,
        "network:\n  version: 2\n  ethernets:\n    storage:\n      match:\n"
        f'        macaddress: "{mac}"\n      set-name: {netdev}\n'
        "      mtu: 4200\n",
    )
    assert fabric.changes({})
    assert '    "storage":\n' in lab.run(NODE, f"cat /etc/netplan/90-rdmaprov-{netdev}.yaml")
    lab.must("reboot", NODE)
    assert settled(lab) == ["198.18.0.1/24", "198.18.1.1/24"]
    assert lab.run(NODE, f"cat /sys/class/net/{netdev}/mtu") == "4200\n"
    assert not fabric.changes({})
    # Without a name there, udev would leave it the kernel's as soon as it has an MTU.
    lab.run(NODE, f"sed -i '/set-name\\|mtu/d' {ADMINS}")
    mtu = Play(lab, tmp_path / "mtu", "mtu", NODE)
    assert mtu.changes({})
    lab.must("reboot", NODE)
    assert lab.run(NODE, f"cat /sys/class/net/{netdev}/mtu") == "4200\n"
    assert not mtu.changes({})


MANAGEMENT = "enp0s2"  # QEMU's own server gives it an address
MANAGED = f"""network:
  version: 2
  ethernets:
    {MANAGEMENT}: {{dhcp4: true, link-local: []}}
"""
JOURNAL = "journalctl --sync; journalctl -b -u systemd-networkd -o cat"
IN_PLACE = f"""sed -i s/4200/4100/ /etc/netplan/91-rdmaprov-mtu-*.yaml
netplan generate; networkctl reload
for i in $(seq 60); do ip address show dev {MANAGEMENT} | grep -q dynamic && break; sleep 1; done
"""


def test_management_nic_keeps_its_lease_as_a_rail_gets_its_mtu(lab, tmp_path):
    """And it does not with `netplan generate` in place of what the role does."""
    mtu = Play(lab, tmp_path, "mtu", NODE)
    (rail, _) = yaml.safe_load((mtu.site / "hosts.yml").read_text())["lab"]["hosts"][NODE][
        "fabric_rails"
    ]
    write(lab, ADMINS, MANAGED)
    lab.run(NODE, "rm /etc/systemd/network/10-management.network")
    lab.must("reboot", NODE)
    assert "dynamic" in lab.run(NODE, f"ip -4 address show dev {MANAGEMENT}")

    def said_since(lines):
        new = lab.run(NODE, JOURNAL).splitlines()[lines:]
        return [line for line in new if line.startswith(f"{MANAGEMENT}: ")]

    read = len(lab.run(NODE, JOURNAL).splitlines())
    assert mtu.changes({"fabric_rails": [rail]})
    assert not mtu.changes({"fabric_rails": [rail]})
    written = lab.run(NODE, "grep -rl 4200 /run/systemd/network")
    assert f"10-netplan-{rail['netdev']}.network" in written
    assert len(lab.run(NODE, JOURNAL).splitlines()) > read  # it did read them
    assert said_since(read) == []
    read = len(lab.run(NODE, JOURNAL).splitlines())
    lab.run(NODE, IN_PLACE)
    again = "\n".join(said_since(read))
    assert "Reconfiguring" in again
    assert "DHCP" in again
