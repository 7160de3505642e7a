"""A rail on a partition's IPoIB interface: made now, kept by each manager, refused if wrong.

Held against what others published: Linux Documentation/infiniband/ipoib.rst for create_child and
the name; systemd.netdev(5) and systemd.network(5) of 252; libnm's NMSettingInfiniband, and Red
Hat's "Configuring IPoIB" for RHEL 9 (mlx5_ib0.8002, P_Key 0x8002).
"""

import pytest
from plugins.module_utils.converge import converge
from plugins.module_utils.links import Addressing, Links
from plugins.module_utils.machine import NodeError
from plugins.module_utils.plan import Plan, Refused
from plugins.module_utils.rails import find
from plugins.module_utils.roles import fabric, mtu
from tests.roles.fabric_node import arguments
from tests.roles.fake import FakeMachine
from tests.roles.iproute import IpRoute
from tests.roles.links_node import with_ifupdown, with_netplan, with_network_manager
from tests.roles.links_node import with_networkd as with_systemd
from tests.tables import cases

from rdmaprov.facts import boot_partition, link_files
from rdmaprov.facts.text import Files

PORT, CHILD, KEY = "mlx5_ib0", "mlx5_ib0.8002", "0x8002"
NET = "/sys/class/net/"
NETWORKD = "/etc/systemd/network/20-rdmaprov-"
PROFILE = f"/etc/NetworkManager/system-connections/rdmaprov-{CHILD}.nmconnection"
STANZA = "/etc/network/interfaces.d/rdmaprov-fabric-mlx5_ib0_8002"
ENTRY = {"netdev": PORT, "ipoib_pkey": KEY, "address": "192.0.2.1/24"}
# RFC 4391, section 4
BROADCAST = "00:ff:ff:ff:ff:12:40:1b:{}:00:00:00:00:00:00:ff:ff:ff:ff\n"


@pytest.fixture
def node(machine: FakeMachine) -> FakeMachine:
    machine.nic(PORT, "0000:18:00.0", "mlx5_0", index=3)
    machine.put(f"{NET}{PORT}/type", "32\n")
    machine.put(f"{NET}{PORT}/mode", "datagram\n")
    machine.put(f"{NET}{PORT}/create_child")
    machine.put("/sys/class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand\n")
    machine.put("/proc/net/if_inet6")
    machine.programs["networkctl --version"] = "systemd 252 (252.39-1~deb12u1)\n"
    return machine


def make(node: FakeMachine, key: str = "80:02") -> None:
    node.nic(CHILD, "0000:18:00.0", index=4)
    for name, text in {"type": "32", "mtu": "2044", "mode": "datagram", "iflink": "3"}.items():
        node.put(f"{NET}{CHILD}/{name}", text + "\n")
    node.put(f"{NET}{CHILD}/broadcast", BROADCAST.format(key))
    for name in ("arp_ignore", "arp_announce", "rp_filter"):
        node.put(f"/proc/sys/net/ipv4/conf/{CHILD}/{name}", "0\n")


@pytest.fixture
def shown(node: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> IpRoute:
    """Have the node's ip, and the kernel make what is written to create_child."""
    found, plain = IpRoute(node), node.set
    found.links = {"eno1": ["10.0.2.15/24"], PORT: []}

    def write(name: str, value: str) -> None:
        plain(name, value)
        if name == f"{NET}{PORT}/create_child":
            assert value == f"{KEY}\n"
            make(node)
            found.links[CHILD], found.up[CHILD] = [], False

    monkeypatch.setattr(node, "set", write)
    return found


def wanted(**changed: object) -> dict[str, object]:
    return {
        **arguments(),
        "kind": "infiniband",
        "rails": [ENTRY],
        "ipoib_mode": "datagram",
        "link_manager": "ifupdown",
        **changed,
    }


def test_interface_is_made_and_addressed_and_a_second_run_changes_nothing(node, shown):
    with_ifupdown(node)
    result = converge(node, fabric, wanted(), check=False)
    made = [(each["device"], each["setting"], each["wanted"]) for each in result["changes"]]
    assert made[0] == (CHILD, "IPoIB partition", KEY)
    assert (CHILD, "link", "up") in made
    assert shown.links == {"eno1": ["10.0.2.15/24"], PORT: [], CHILD: ["192.0.2.1/24"]}
    assert not converge(node, fabric, wanted(), check=False)["changed"]


def test_bare_node_can_be_planned(node, shown):  # noqa: ARG001
    with_ifupdown(node)
    assert converge(node, fabric, wanted(), check=True)["changed"]
    sizes = {"mtu_bytes": 2044, "rdma_bytes": 4096}
    assert converge(node, mtu, {**wanted(), **sizes}, check=True)["changed"]
    assert not node.exists(NET + CHILD)


def test_mtu_alone_says_that_the_interface_is_not_there(node, shown):  # noqa: ARG001
    with_ifupdown(node)
    sizes = {"mtu_bytes": 2044, "rdma_bytes": 4096}
    with pytest.raises(NodeError, match=rf"{CHILD}: there is no such .* --roles fabric,mtu"):
        converge(node, mtu, {**wanted(), **sizes}, check=False)


def test_interface_with_another_key_is_named(node, shown):
    with_ifupdown(node)
    make(node, "80:07")
    shown.links[CHILD] = []
    with pytest.raises(Refused, match=rf"{CHILD}: its partition key is 0x8007, expected 0x8002"):
        converge(node, fabric, wanted(), check=True)


@pytest.mark.parametrize(("changed", "said"), cases(__file__, "what_cannot_be_is_refused"))
def test_what_cannot_be_is_refused(node, shown, changed, said):  # noqa: ARG001
    with_ifupdown(node)
    with pytest.raises(Refused, match=said):
        converge(node, fabric, wanted(**changed), check=True)


def test_name_that_the_kernel_would_cut_is_refused(node, shown):  # noqa: ARG001
    with_ifupdown(node)
    node.nic("ibp195s0f1d1", "0000:18:00.1", "mlx5_1", index=5)
    node.put(f"{NET}ibp195s0f1d1/type", "32\n")
    node.put("/sys/class/infiniband/mlx5_1/ports/1/link_layer", "InfiniBand\n")
    rails = [{**ENTRY, "netdev": "ibp195s0f1d1"}]
    with pytest.raises(Refused, match="is longer than the 15 characters"):
        converge(node, fabric, wanted(rails=rails), check=True)


def with_networkd(node: FakeMachine) -> None:
    def reload(_: list[str]) -> str:
        for index, name in ((3, PORT), (4, CHILD)):
            file = f"{NETWORKD}{name}.network"
            node.put(f"/run/systemd/netif/links/{index}", f"NETWORK_FILE={file}\n")
        return ""

    with_systemd(node)
    node.programs["networkctl reload"] = reload


def with_manager_of_red_hat(node: FakeMachine) -> None:
    with_network_manager(node)
    node.programs[f"nmcli -g GENERAL.STATE device show {PORT}"] = "30 (disconnected)\n"
    node.programs[f"nmcli -g GENERAL.CONNECTION device show {CHILD}"] = f"rdmaprov-{CHILD}\n"


MANAGERS = [
    (
        with_networkd,
        f"{NETWORKD}{CHILD}.netdev",
        "[NetDev]\nName=mlx5_ib0.8002\nKind=ipoib\n\n[IPoIB]\nPartitionKey=0x8002\n",
    ),
    (with_networkd, f"{NETWORKD}{PORT}.network", "IPoIB=mlx5_ib0.8002\n"),
    (with_networkd, f"{NETWORKD}{CHILD}.network", "Name=mlx5_ib0.8002\n"),
    (with_manager_of_red_hat, PROFILE, "type=infiniband\ninterface-name=mlx5_ib0.8002\n"),
    (
        with_manager_of_red_hat,
        PROFILE,
        "[infiniband]\ntransport-mode=datagram\np-key=32770\nparent=mlx5_ib0\n",
    ),
    (
        with_ifupdown,
        STANZA,
        "    pre-up test -e /sys/class/net/mlx5_ib0.8002 || "
        "echo 0x8002 > /sys/class/net/mlx5_ib0/create_child\n",
    ),
]


ADDRESS = Addressing("192.0.2.1/24")


def planned(node: FakeMachine, address: Addressing = ADDRESS) -> Plan:
    plan, links, rails = Plan(node), Links(node, "auto"), find(node, [ENTRY])
    links.leftovers(plan, rails)
    links.of(rails[0].port).address(plan, rails[0], address)
    links.settle(plan)
    return plan


@pytest.mark.parametrize(("prepare", "path", "text"), MANAGERS)
def test_boot_makes_it_by_each_manager(node, prepare, path, text):
    make(node)
    prepare(node)
    for step in planned(node).steps:
        step.do()
    assert text in (node.read(path) or "")
    assert not planned(node).steps


@pytest.mark.parametrize(
    ("prepare", "path"),
    [
        (with_networkd, f"{NETWORKD}{CHILD}.network"),
        (with_manager_of_red_hat, PROFILE),
        (with_ifupdown, STANZA),
    ],
)
def test_suite_reads_what_boots_set(node, prepare, path):
    make(node)
    prepare(node)
    for step in planned(node, Addressing("192.0.2.1/24", ipoib_mode="datagram")).steps:
        step.do()
    boot = link_files.boot_settings(Files({path: node.read(path) or ""}, {}), CHILD)
    assert (boot.addresses, boot.ipoib_mode) == (("192.0.2.1/24",), "datagram")
    paths = [f"{NETWORKD}{CHILD}.netdev", f"{NETWORKD}{PORT}.network", PROFILE, STANZA]
    texts = {each: text for each in paths if (text := node.read(each))}
    assert boot_partition.parse(Files(texts, {}), CHILD, PORT).key == int(KEY, 16)
    for missing in texts:
        rest = {each: text for each, text in texts.items() if each != missing}
        assert boot_partition.parse(Files(rest, {}), CHILD, PORT).key is None


@pytest.mark.parametrize(
    ("text", "key"), cases(__file__, "suite_reads_a_partition_of_red_hats_files")
)
def test_suite_reads_a_partition_of_red_hats_files(text, key):
    files = Files({"/etc/sysconfig/network-scripts/ifcfg-mlx5_ib0.8002": text}, {})
    assert boot_partition.parse(files, CHILD, PORT).key == (int(key, 16) if key else None)


def test_rail_that_leaves_its_partition_leaves_no_files(node: FakeMachine):
    make(node)
    with_networkd(node)
    for step in planned(node).steps:
        step.do()
    plan, links = Plan(node), Links(node, "auto")
    links.leftovers(plan, find(node, [{"netdev": PORT}]))
    for step in plan.steps:
        step.do()
    assert node.names("/etc/systemd/network") == [f"20-rdmaprov-{PORT}.network"]


def test_file_of_an_admins_for_the_port_gets_a_drop_in(node: FakeMachine):
    make(node)
    with_networkd(node)
    file = "/etc/systemd/network/10-ib.network"
    node.put(file, f"[Match]\nName={PORT}\n")
    node.put("/run/systemd/netif/links/3", f"NETWORK_FILE={file}\n")
    for step in planned(node).steps[:-1]:
        step.do()
    drop_in = node.read(f"{file}.d/rdmaprov-fabric.conf") or ""
    assert drop_in.endswith(f"[Network]\nIPoIB={CHILD}\n")


@pytest.mark.parametrize(
    ("prepare", "systemd", "mode", "says"),
    [
        (with_netplan, "252", "", "netplan makes no IPoIB interfaces of partitions"),
        # It shows no mode: netlink's children have no such file.
        (with_networkd, "252", "connected", f"{CHILD}: systemd-networkd makes it without"),
        (with_networkd, "249", "", "systemd 250 is the first that .* makes partitions"),
    ],
)
def test_manager_that_cannot_is_refused(node: FakeMachine, prepare, systemd, mode, says):
    make(node)
    prepare(node)
    node.programs["networkctl --version"] = f"systemd {systemd} ({systemd}.11-0ubuntu3)\n"
    with pytest.raises(Refused, match=says):
        planned(node, Addressing("", ipoib_mode=mode) if mode else ADDRESS)
