"""A node with one rail and one of the link managers, and what tells that of the rail."""

from plugins.module_utils.links import Addressing, Links
from plugins.module_utils.plan import Plan
from plugins.module_utils.rails import Rail
from tests.roles.fake import FakeMachine

ROUTED = Addressing("198.18.0.1/24", "198.18.0.254", 1000, 1001)
STATE = "/run/systemd/netif/links/3"
# When systemd-networkd started: far from now, so that it has read none of the files of a test.
STARTED = "ActiveEnterTimestamp=@1700000000\nActiveEnterTimestampMonotonic=5000000\n"


def one_rail(machine: FakeMachine) -> FakeMachine:
    machine.nic("ens1", index=3)
    machine.put("/sys/class/net/ens1/type", "1\n")
    return machine


def with_networkd(node: FakeMachine, state: str = "ADMIN_STATE=unmanaged\n") -> None:
    node.put("/run/systemd/netif/state")
    node.put(STATE, state)
    node.programs["networkctl reload"] = ""
    node.programs["systemctl show -p ActiveEnterTimestamp"] = STARTED


def with_network_manager(node: FakeMachine, state: str = "100 (connected)\n") -> None:
    node.put("/run/NetworkManager/no-stub-resolv.conf")
    node.programs["nmcli"] = ""
    node.programs["nmcli -g GENERAL.STATE device show ens1"] = state
    node.programs["nmcli -g GENERAL.CONNECTION device show ens1"] = "rdmaprov-ens1\n"


def with_ifupdown(node: FakeMachine, text: str = "") -> None:
    node.put("/etc/network/interfaces", "source /etc/network/interfaces.d/*\n" + text)
    node.programs.update({"ifup": "", "ifquery": ""})


def with_netplan(node: FakeMachine, text: str = "network: {version: 2}\n") -> None:
    node.put("/etc/netplan/50-cloud-init.yaml", text)
    node.programs.update({"netplan generate": "", "netplan get": "network:\n  version: 2\n"})


def rail() -> Rail:
    return Rail(0, "ens1", "mlx5_0", "", ROUTED.address, ROUTED.gateway)


def apply(node: FakeMachine, manager: str = "auto", wanted: Addressing = ROUTED) -> Plan:
    plan, links = Plan(node), Links(node, manager)
    links.leftovers(plan, [rail()])
    links.of("ens1").address(plan, rail(), wanted)
    links.settle(plan)
    for step in plan.steps:
        step.do()
    return plan
