"""Join the rails of a plan with the HCAs of subnets, by host and device."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from rdmaprov.site_subnet.plan import PlannedRail, SubnetPlan, host_keys
from rdmaprov.subnet.fabric import Hca, SubnetGraph, by_host
from rdmaprov.subnet.names import AGGREGATION, natural

# Of the nodes of a plan that are there; our choice. A device of fewer of them is no rail's.
_LEAST_SHARE = 0.5


@dataclass(frozen=True)
class RailPort:
    """An HCA with the fabric that it is in."""

    fabric: SubnetGraph
    hca: Hca

    @property
    def leaf(self) -> str:
        """Return the name of the switch that it is on."""
        return self.fabric.label(self.hca.switch)


@dataclass
class Joined:
    """The plan and what is there."""

    # the HCA of each rail that was found
    ports: dict[PlannedRail, RailPort] = field(default_factory=dict)
    # for rails whose device the subnet does not tell, why
    unnamed: dict[PlannedRail, str] = field(default_factory=dict)
    # HCAs of the plan's nodes that are no rail
    extra: list[tuple[str, RailPort]] = field(default_factory=list)
    # HCAs of hosts that the plan does not expect
    strangers: list[RailPort] = field(default_factory=list)
    nameless: int = 0  # the number of HCAs whose node description has no host name


def join(plan: SubnetPlan, fabrics: Sequence[SubnetGraph]) -> Joined:
    """Return which HCA each rail of a plan is."""
    joined = Joined()
    hosts = _hosts(fabrics)
    keys = {key: node for node in plan.nodes for key in host_keys(node)}
    own: dict[str, dict[str, RailPort]] = {}
    for host, ports in hosts.items():
        node = next((keys[key] for key in host_keys(host) if key in keys), None)
        if node is not None:
            own.setdefault(node, {}).update(ports)
        elif not plan.expects(host):
            joined.strangers += ports.values()
    _join_rails(plan, own, joined)
    joined.nameless = sum(
        not hca.at.device and not plan.expects(hca.at.host)
        for fabric in fabrics
        for hca in fabric.hcas
        if AGGREGATION not in hca.end.name
    )
    return joined


def _hosts(fabrics: Iterable[SubnetGraph]) -> dict[str, dict[str, RailPort]]:
    found: dict[str, dict[str, RailPort]] = {}
    for fabric in fabrics:
        for host, own in by_host(fabric).items():
            ports = found.setdefault(host, {})
            for device, hca in own.items():
                ports.setdefault(device, RailPort(fabric, hca))
    return found


def _join_rails(plan: SubnetPlan, own: dict[str, dict[str, RailPort]], joined: Joined) -> None:
    usual = _usual_devices(plan, own)
    for node in plan.nodes:
        rails = [rail for rail in plan.rails if rail.node == node]
        ports = dict(own.get(node, {}))
        for rail in rails:
            names = usual.get(len(rails), [])
            device = rail.device or (names[rail.index] if len(names) == len(rails) else "")
            if not device:
                joined.unnamed[rail] = _ambiguous(len(names), len(rails))
            elif device in ports:
                joined.ports[rail] = ports.pop(device)
        if not any(rail in joined.unnamed for rail in rails):
            joined.extra += ((node, port) for port in ports.values())


def _ambiguous(devices: int, rails: int) -> str:
    return (
        f"most nodes have {devices} devices in the subnet, and {rails} rails;"
        " write rdma into fabric_rails"
    )


def _usual_devices(plan: SubnetPlan, own: dict[str, dict[str, RailPort]]) -> dict[int, list[str]]:
    """Return, for nodes with a number of rails, the devices that most of them have, in order."""
    sizes = Counter(rail.node for rail in plan.rails)
    found: dict[int, list[str]] = {}
    for size in set(sizes.values()):
        nodes = [own[node] for node, count in sizes.items() if count == size and node in own]
        count = Counter(device for ports in nodes for device in ports)
        usual = [device for device in count if count[device] >= _LEAST_SHARE * len(nodes)]
        found[size] = sorted(usual, key=natural)
    return found
