"""netplan: the admin's definition of a device, and files that netplan does not take."""

from pathlib import Path

import pytest
from plugins.module_utils.links import Addressing, Links
from plugins.module_utils.links.netplan_get import parse
from plugins.module_utils.links.networkd import Networkd
from plugins.module_utils.machine import CommandFailed, NodeError
from plugins.module_utils.plan import Plan, Refused
from plugins.module_utils.rails import Rail
from tests.roles.fake import FakeMachine
from tests.roles.links_node import STATE, with_netplan, with_networkd
from tests.tables import cases

# Printed by netplan 0.106 of Debian 12.
GET = (Path(__file__).parents[1] / "fixtures/netplan/get-0.106.txt").read_text()
# Likewise, of our file with a bond in another section.
CHANGES_TYPE = cases(__file__, "changes_type")
BROKEN = cases(__file__, "broken")


@pytest.fixture
def node(tmp_path: Path) -> FakeMachine:
    made_up = FakeMachine(tmp_path)
    with_networkd(made_up)
    with_netplan(made_up)
    made_up.programs["netplan get"] = GET
    return made_up


def device(node: FakeMachine, netdev: str, kind: str = "", mac: str = "aa:bb:cc:00:00:01") -> None:
    node.put(f"/sys/class/net/{netdev}/address", mac + "\n")
    node.put(f"/sys/class/net/{netdev}/uevent", f"DEVTYPE={kind}\n" if kind else "")


def planned(node: FakeMachine, netdev: str) -> Plan:
    plan, links = Plan(node), Links(node, "netplan")
    rail = Rail(0, netdev, "mlx5_0", "", "198.18.0.1/24", "")
    links.of(netdev).address(plan, rail, Addressing("198.18.0.1/24"))
    links.settle(plan)
    return plan


def do(plan: Plan) -> None:
    for step in plan.steps:
        step.do()


def fails(text: str):
    def answer(argv: list[str]) -> str:
        raise CommandFailed(argv, 1, text.format(root=argv[-1]))

    return answer


@pytest.mark.parametrize(
    ("netdev", "kind", "mac", "section", "name"),
    cases(__file__, "device_keeps_the_admins_definition"),
)
def test_device_keeps_the_admins_definition(node, netdev, kind, mac, section, name):
    device(node, netdev, kind, mac)
    do(planned(node, netdev))
    text = node.read(f"/etc/netplan/90-rdmaprov-{netdev}.yaml") or ""
    assert f'  {section}:\n    "{name}":\n' in text
    assert planned(node, netdev).steps == []


@pytest.mark.parametrize(
    ("netdev", "kind", "why"), cases(__file__, "device_without_a_definition_of_its_own_is_refused")
)
def test_device_without_a_definition_of_its_own_is_refused(node, netdev, kind, why):
    device(node, netdev, kind)
    with pytest.raises(Refused, match=why):
        planned(node, netdev)


def test_files_that_netplan_does_not_take_are_refused_before_anything_is_written(node: FakeMachine):
    node.programs["netplan generate --root-dir"] = fails(CHANGES_TYPE)
    with pytest.raises(Refused, match=r"rejects /etc/netplan/90-rdmaprov-ens1\.yaml:4:5: Error in"):
        planned(node, "ens1")
    assert node.names("/etc/netplan") == ["50-cloud-init.yaml"]


def test_broken_file_of_an_admins_is_refused(node: FakeMachine):
    node.programs["netplan get"] = fails(BROKEN)
    with pytest.raises(
        Refused, match=r"rejects /etc/netplan/50-cloud-init\.yaml:4:5: .*'adresses'\. N"
    ):
        planned(node, "ens1")


def test_what_is_tried_has_the_admins_files_and_ours(node: FakeMachine):
    node.put("/lib/netplan/00-network-manager-all.yaml", "network: {}\n")
    tried = []

    def see(argv: list[str]) -> str:
        tried.append({str(p.relative_to(argv[-1])) for p in Path(argv[-1]).rglob("*.yaml")})
        return ""

    node.programs["netplan generate --root-dir"] = see
    planned(node, "ens3")
    assert tried == [
        {
            "etc/netplan/50-cloud-init.yaml",
            "etc/netplan/90-rdmaprov-ens3.yaml",
            "lib/netplan/00-network-manager-all.yaml",
        }
    ]


def test_files_are_taken_back_where_netplan_fails_on_the_node(node: FakeMachine):
    do(planned(node, "ens3"))
    path = "/etc/netplan/90-rdmaprov-ens3.yaml"
    before = node.read(path)
    node.put("/etc/netplan/91-rdmaprov-mtu-ens3.yaml", "kept")
    plan, links = Plan(node), Links(node, "netplan")
    rail = Rail(0, "ens3", "mlx5_0", "", "198.18.0.9/24", "")
    links.of("ens3").address(plan, rail, Addressing("198.18.0.9/24"))
    links.settle(plan)
    node.programs["netplan generate"] = CommandFailed(["netplan", "generate"], 1, "No space left")
    with pytest.raises(NodeError, match=r"No space left\. rdmaprov's netplan files are unchanged"):
        do(plan)
    assert node.read(path) == before


def test_first_file_is_removed_where_netplan_fails_on_the_node(node: FakeMachine):
    plan = planned(node, "ens3")
    node.programs["netplan generate"] = CommandFailed(["netplan", "generate"], 1, "No space left")
    with pytest.raises(NodeError, match="No space left"):
        do(plan)
    assert node.names("/etc/netplan") == ["50-cloud-init.yaml"]


def test_definitions_are_read_with_their_match():
    found = {each.name: each for each in parse(GET)}
    assert found["rail0"].set_name == "ens1"
    assert found["anyens"].match == {"name": "ens9*"}
    assert found["bond0.100"].section == "vlans"
    assert list(found) == ["eno1", "rail0", "rail2", "anyens", "bond0", "bond0.100"]


@pytest.mark.parametrize(
    ("netdev", "is_named"), [("ens1", True), ("ens2", False), ("eno1", True), ("ens3", True)]
)
def test_mtu_leaves_a_device_its_name(node: FakeMachine, netdev: str, is_named: bool):
    """ens2 is found by its MAC address alone: an MTU would leave it the kernel's name."""
    device(node, netdev, mac=f"aa:bb:cc:dd:ee:0{netdev[3:] if netdev != 'eno1' else 7}")
    plan = Plan(node)
    Links(node, "netplan").of(netdev).mtu(plan, Rail(0, netdev, "mlx5_0", "", "", ""), 4200)
    (step,) = [each for each in plan.diffs() if "91-rdmaprov" in each["after_header"]]
    assert "      mtu: 4200\n" in step["after"]
    assert (f'      set-name: "{netdev}"\n' in step["after"]) is not is_named


def test_definition_for_other_drivers_or_addresses_is_for_no_rail():
    """`netplan get` shows one driver as a value and several as a list."""
    several = '        driver:\n        - "ixgbe"\n        - "mlx5*"\n'
    replaced = '        macaddress: "aa:bb:cc:dd:ee:09"\n      set-name: "ens1"\n'
    others = ('        driver: "ixgbe"\n', several + '        name: "eno*"\n', replaced)
    for match in (several, *others):
        (found,) = parse(("network:\n  ethernets:\n    a:\n      match:\n") + match)
        assert found.may_be_for("ens1", "aa:bb:cc:dd:ee:01", "mlx5_core") == (match == several)


def test_networkd_is_waited_for(node: FakeMachine, monkeypatch: pytest.MonkeyPatch):
    """It takes addresses away while it configures a device that was nobody's before."""
    device(node, "ens1")
    node.put("/sys/class/net/ens1/ifindex", "3\n")
    file = "/run/systemd/network/10-netplan-ens1.network"
    states = [
        "ADMIN_STATE=unmanaged\n",
        f"ADMIN_STATE=configuring\nNETWORK_FILE={file}\n",
        f"ADMIN_STATE=configured\nNETWORK_FILE={file}\n",
    ]
    seen: list[str] = []

    def sleep(_: float) -> None:
        seen.append(states[min(len(seen), 2)])
        node.put(STATE, seen[-1])

    monkeypatch.setattr("plugins.module_utils.links.networkd.time.sleep", sleep)

    def reload(_: list[str]) -> str:
        node.put(file, "")
        return ""

    node.programs["networkctl reload"] = reload
    do(planned(node, "ens1"))
    assert seen == states


def test_link_without_a_file_is_not_disturbed_by_a_netdev_of_another(node):
    """As after a boot with a file that netplan does not take: no link has a .network file."""
    device(node, "eno1")
    device(node, "eno2")
    node.put("/sys/class/net/eno2/ifindex", "4\n")
    node.put("/run/systemd/network/10-netplan-bond7.netdev", "[NetDev]\nName=bond7\nKind=bond\n")
    assert Networkd(node).disturbed({}) == []
