"""The MTU of the rails: running, configured, and the RDMA MTU that follows."""

from pathlib import Path

import pytest
from plugins.module_utils.converge import converge
from plugins.module_utils.machine import CommandFailed, NodeError
from plugins.module_utils.plan import Refused
from plugins.module_utils.roles import mtu
from tests.roles.fake import FakeMachine, given

DROP_IN = "/etc/systemd/network/20-rdmaprov-ens1.network.d/rdmaprov-mtu.conf"


@pytest.fixture
def node(machine: FakeMachine) -> FakeMachine:
    """Provide a node with one rail, a management NIC and systemd-networkd."""
    machine.nic("ens1", pci="0000:18:00.0", rdma="rocep24s0", index=3)
    machine.nic("eno1", pci="0000:01:00.0", index=2)
    machine.put("/run/systemd/netif/state")

    def set_mtu(argv: list[str]) -> str:
        Path(machine.path(f"/sys/class/net/{argv[4]}/mtu")).write_text(argv[-1] + "\n")
        return ""

    def devinfo(argv: list[str]) -> str:
        mtu = int(machine.value("/sys/class/net/ens1/mtu") or 0)
        rdma = max(size for size in (256, 512, 1024, 2048, 4096) if size <= mtu - 96)
        return f"hca_id:\t{argv[-1]}\n\t\t\tactive_mtu:\t\t{rdma} (3)\n"

    machine.programs = {
        "ip link set dev": set_mtu,
        "ip -j -4 route show default": '[{"dst":"default","gateway":"10.0.2.2","dev":"eno1"}]',
        "ip -j -6 route show default": "",
        "networkctl reload": "",
        "ibv_devinfo -d rocep24s0": devinfo,
    }
    return machine


def arguments(**changed: object) -> dict[str, object]:
    own = {"kind": "roce", "rails": [{"pci": "0000:18:00.0"}], "mtu_bytes": 4200}
    return given("mtu", **{**own, "rdma_bytes": 4096, **changed})


def test_without_ipoib_the_rdma_mtu_alone_is_verified(node: FakeMachine):
    node.programs["ibv_devinfo -d rocep24s0"] = "\t\t\tactive_mtu:\t\t4096 (5)\n"
    wanted = arguments(kind="infiniband", ipoib=False, mtu_bytes=2044)
    assert not converge(node, mtu, wanted, check=False)["changed"]
    assert node.value("/sys/class/net/ens1/mtu") == "1500"
    node.programs["ibv_devinfo -d rocep24s0"] = "\t\t\tactive_mtu:\t\t2048 (4)\n"
    with pytest.raises(Refused, match="RDMA MTU 2048, expected 4096"):
        mtu.plan(node, wanted)


def test_rail_gets_its_mtu_now_and_at_boot(node: FakeMachine):
    result = converge(node, mtu, arguments(), check=False)
    assert result["changes"] == [
        {"layer": "running", "device": "ens1", "setting": "MTU", "seen": "1500", "wanted": "4200"},
        {
            "layer": "configured",
            "device": "ens1",
            "setting": "MTU",
            "seen": "none",
            "wanted": "4200",
        },
    ]
    assert result["interrupts"] == [
        "ens1 MTU: its queues are closed and reopened, for under 1 s",
        "ens1 systemd-networkd: its addresses are removed and added again, for about 1 s",
    ]
    assert node.value("/sys/class/net/ens1/mtu") == "4200"
    assert "[Link]\nMTUBytes=4200\n" in (node.read(DROP_IN) or "")
    assert "networkctl reload" in node.ran
    assert not converge(node, mtu, arguments(), check=False)["changed"]


def test_drop_in_goes_beside_the_admins_file(node: FakeMachine):
    node.put("/etc/systemd/network/10-rail.network", "[Match]\nName=ens1\n")
    node.put("/run/systemd/netif/links/3", "NETWORK_FILE=/etc/systemd/network/10-rail.network\n")
    converge(node, mtu, arguments(), check=False)
    assert node.exists("/etc/systemd/network/10-rail.network.d/rdmaprov-mtu.conf")


def test_rail_that_did_not_take_it_is_an_error(node: FakeMachine):
    node.programs["ip link set dev"] = ""
    with pytest.raises(NodeError, match=r"not in effect: ens1: MTU \(running\) is 1500"):
        converge(node, mtu, arguments(), check=False)


def test_rdma_mtu_that_does_not_follow_is_refused(node: FakeMachine):
    node.programs["ibv_devinfo -d rocep24s0"] = "active_mtu:\t\t1024 (3)\n"
    with pytest.raises(Refused, match="rocep24s0: RDMA MTU 1024, expected 4096"):
        converge(node, mtu, arguments(), check=False)


MODE = "/sys/class/net/ens1/mode"


@pytest.mark.parametrize(("mode", "most"), [("datagram", 4092), ("connected", 65520)])
def test_ipoib_mode_limits_the_mtu(node: FakeMachine, mode: str, most: int):
    node.put(MODE, mode + "\n")
    with pytest.raises(Refused, match=f"ens1: IPoIB in {mode} mode has an MTU of at most {most}"):
        converge(node, mtu, arguments(mtu_bytes=most + 1), check=True)
    assert converge(node, mtu, arguments(mtu_bytes=most), check=True)["changed"]
    assert not [line for line in node.ran if "set" in line]


def test_partition_that_cuts_the_mtu_is_named(node: FakeMachine):
    """The kernel ends with success, and the MTU is that of the multicast group."""
    node.put(MODE, "datagram\n")

    def set_mtu(argv: list[str]) -> str:
        node.put("/sys/class/net/ens1/mtu", f"{min(int(argv[-1]), 2044)}\n")
        return ""

    node.programs["ip link set dev"] = set_mtu
    with pytest.raises(NodeError, match=r"MTU is 2044 after it was set to 4092: the partition's"):
        converge(node, mtu, arguments(mtu_bytes=4092), check=False)


@pytest.fixture
def vlan(node: FakeMachine) -> FakeMachine:
    """Provide the node with its rail on VLAN 100 of ens1, whose MTU the kernel holds to ens1's."""
    node.nic("ens1.100", index=7)
    node.put("/sys/class/net/ens1.100/uevent", "DEVTYPE=vlan\n")
    node.link("/sys/class/net/ens1.100/lower_ens1", "/sys/class/net/ens1")

    def set_mtu(argv: list[str]) -> str:
        if argv[4] == "ens1.100" and int(argv[-1]) > int(node.value(PARENT) or 0):
            raise CommandFailed(argv, 2, "RTNETLINK answers: Numerical result out of range")
        node.put(f"/sys/class/net/{argv[4]}/mtu", argv[-1] + "\n")
        return ""

    node.programs["ip link set dev"] = set_mtu
    return node


PARENT = "/sys/class/net/ens1/mtu"
ON_VLAN = arguments(rails=[{"netdev": "ens1.100"}])


def test_device_below_a_vlan_gets_the_mtu_first(vlan: FakeMachine):
    changes = converge(vlan, mtu, ON_VLAN, check=False)["changes"]
    assert [(each["layer"], each["device"]) for each in changes] == [
        ("running", "ens1"),
        ("running", "ens1.100"),
        ("configured", "ens1"),
        ("configured", "ens1.100"),
    ]
    assert "MTUBytes=4200" in (vlan.read(DROP_IN) or "")
    assert not converge(vlan, mtu, ON_VLAN, check=False)["changed"]


def test_larger_mtu_below_a_vlan_is_left_alone(vlan: FakeMachine):
    vlan.put(PARENT, "9216\n")
    changes = converge(vlan, mtu, ON_VLAN, check=False)["changes"]
    assert {each["device"] for each in changes} == {"ens1.100"}
    assert vlan.read(DROP_IN) is None


def test_bond_below_a_vlan_gets_the_mtu_and_gives_it_to_its_ports(vlan: FakeMachine):
    vlan.put("/sys/class/net/ens1/uevent", "DEVTYPE=bond\n")
    vlan.link("/sys/class/net/ens1/lower_eno2", "/sys/class/net/eno1")
    changes = converge(vlan, mtu, ON_VLAN, check=True)["changes"]
    assert {each["device"] for each in changes} == {"ens1", "ens1.100"}


def test_device_below_a_vlan_on_the_management_path_is_refused(vlan: FakeMachine):
    route = '[{"dst":"default","gateway":"10.0.2.2","dev":"ens1"}]'
    vlan.programs["ip -j -4 route show default"] = route
    with pytest.raises(Refused, match="ens1 is on the management path"):
        converge(vlan, mtu, ON_VLAN, check=False)
    assert vlan.value(PARENT) == "1500"
