"""Whether nodes answer each other, by each rail and for the rendezvous."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from rdmaprov.boundary import Document
from rdmaprov.finding.finding import Finding
from rdmaprov.inventory import Node
from rdmaprov.probe.errors import NodeError

LIMIT_S = 5.0


@dataclass(frozen=True)
class ReachTest:
    """One connection to try."""

    source: str
    target: str
    address: str
    device: str  # by which; empty: as the node's routes say
    rail: int | None  # the rail that it proves, None for the rendezvous alone
    port: int = 0  # where nothing listens; 0 for any, such as on rails

    @property
    def tried_port(self) -> int:
        """Return the port that the node tries: what the node's reader takes for any."""
        return self.port or 9  # reader.PORT, of a program that runs when it is imported


@dataclass(frozen=True)
class Rendezvous:
    """Where ranks join: an address of the first node, and each node's device to it."""

    address: str
    devices: Mapping[str, str]


def reach_tests(nodes: Sequence[Node], facts: Mapping[str, Document]) -> list[ReachTest]:
    """Return what to try: each node's rails to the first node's and to the next one's.

    Addresses of these that are no rail's are tried too, if no other node has the same.
    """
    first = nodes[0]
    owners = Counter(
        address
        for node in nodes
        for known in facts[node.name]["addresses"].values()
        for address in known
    )
    meets = int(first.get("torch_runtime_acceptance_port") or facts[first.name]["port"])
    found = [
        ReachTest(node.name, first.name, address, "", None, meets)
        for address in _management_addresses(first.name, owners, facts)
        for node in nodes[1:]
    ]
    found += [
        ReachTest(node.name, far.name, address, "", None, int(facts[far.name]["port"]))
        for node, far in pairwise(nodes)
        for address in _management_addresses(far.name, owners, facts)
    ]
    for number, node in enumerate(nodes):
        following = nodes[(number + 1) % len(nodes)]
        for other in dict.fromkeys((first.name, following.name)):
            if other != node.name:
                found += _rail_tests(
                    node, next(n for n in (first, following) if n.name == other), facts
                )
    return found


def _rail_tests(node: Node, other: Node, facts: Mapping[str, Document]) -> Iterator[ReachTest]:
    planes = other.planes
    for plane, rail in node.planes.items():
        far, seen = planes.get(plane), facts[node.name]["rails"][rail.index]
        if far is not None and far.address is not None:
            yield ReachTest(node.name, other.name, str(far.address.ip), seen["netdev"], rail.index)


def _management_addresses(
    name: str, owners: Mapping[str, int], facts: Mapping[str, Document]
) -> list[str]:
    """Return a node's addresses that no rail has, and no other node."""
    rails = {each["netdev"] for each in facts[name]["rails"]}
    return [
        address
        for netdev, known in facts[name]["addresses"].items()
        for address in known
        if netdev not in rails and owners[address] == 1
    ]


def targets(asked: Sequence[ReachTest]) -> list[Document]:
    """Return probes as the reader takes them."""
    return [{"address": p.address, "device": p.device, "port": p.port} for p in asked]


def failures(
    asked: Mapping[str, Sequence[ReachTest]], answers: Mapping[str, Document | NodeError]
) -> dict[ReachTest, str]:
    """Return the probes that got no answer, with the reason."""
    found = {}
    for source, tried in asked.items():
        answer = answers[source]
        said = (
            [str(answer)] * len(tried) if isinstance(answer, NodeError) else list(answer["reach"])
        )
        found.update({probe: why for probe, why in zip(tried, said, strict=True) if why})
    return found


def findings(asked: Sequence[ReachTest], failed: Mapping[ReachTest, str]) -> list[Finding]:
    """Return which rails do not reach each other; a node that fails every test is named alone."""
    found: list[Finding] = []
    for rail in sorted({probe.rail for probe in asked if probe.rail is not None}):
        of_rail = [probe for probe in asked if probe.rail == rail]
        found += _judge_rail(rail, of_rail, {p: failed[p] for p in of_rail if p in failed})
    return found


def _judge_rail(
    rail: int, asked: Sequence[ReachTest], failed: Mapping[ReachTest, str]
) -> Iterator[Finding]:
    tries = Counter(name for probe in asked for name in (probe.source, probe.target))
    misses = Counter(name for probe in failed for name in (probe.source, probe.target))
    alone = {name for name, count in misses.items() if count == tries[name]}
    # No node stands out if all fail, as with two nodes.
    alone = alone if len(alone) < len(tries) else set()
    for name in sorted(alone):
        why = next(why for probe, why in failed.items() if name in (probe.source, probe.target))
        what = f"all {tries[name]} connections over it fail: {why}"
        yield Finding("rail.unreachable", what, _remedy(name), name, rail)
    for probe, why in failed.items():
        if not alone & {probe.source, probe.target}:
            what = f"{probe.device} does not reach {probe.address} of {probe.target}: {why}"
            yield Finding("rail.unreachable", what, _remedy(probe.source), probe.source, rail)


def _remedy(node: str) -> str:
    return f"On {node}, check: ip address; ip route; then the cable and the switch port's VLAN"


def find_rendezvous(
    nodes: Sequence[Node],
    facts: Mapping[str, Document],
    asked: Mapping[str, Sequence[ReachTest]],
    answers: Mapping[str, Document],
) -> Rendezvous | None:
    """Return where all nodes reach the first one, its management address before a rail's."""
    first = nodes[0].name
    by_address: dict[str, dict[str, str]] = {}
    for source, tried in asked.items():
        said = zip(tried, answers[source]["reach"], answers[source]["own"], strict=True)
        for probe, why, own in said:
            if probe.target == first and not why:
                by_address.setdefault(probe.address, {})[source] = own
    order = dict.fromkeys(p.address for tried in asked.values() for p in tried if p.target == first)
    for address in order:
        own = {first: address, **by_address.get(address, {})}
        devices = {name: _device(facts[name], own.get(name, "")) for name in facts}
        if all(devices.values()):
            return Rendezvous(address, devices)
    return None


_OPEN = (
    "Let all TCP between nodes pass on the control device, each port of each node: NCCL, gloo and "
    "perftest listen at any (nft list ruleset; ufw status; firewall-cmd --list-all)"
)


def control_findings(
    rendezvous: Rendezvous,
    asked: Mapping[str, Sequence[ReachTest]],
    answers: Mapping[str, Document],
) -> list[Finding]:
    """Return between which nodes the control device lets no connection pass: either may filter."""
    said = [
        (probe, why, own)
        for source, tried in asked.items()
        for probe, why, own in zip(
            tried, answers[source]["reach"], answers[source]["own"], strict=True
        )
    ]
    control = {p.source: own for p, _, own in said if p.address == rendezvous.address}
    found = [
        Finding(
            "control.filtered",
            f"{p.source} does not reach port {p.tried_port} of {p.target} ({p.address} on "
            f"{rendezvous.devices[p.target]}): {why}",
            _OPEN,
            nodes=(p.source, p.target),
        )
        for p, why, _ in said
        if why and p.address == control.get(p.target)
    ]
    if 2 * len(found) <= max(2, len(control)):
        return found
    what = f"{len(found)} of {len(control)} nodes are not let through to the next one, such as: "
    ends = tuple(dict.fromkeys(name for each in found for name in each.nodes))
    return [replace(found[0], what=what + found[0].what, level="fleet", nodes=ends)]


def _device(facts: Document, address: str) -> str:
    """Return the network device that has an address, empty if none does."""
    devices = (name for name, known in facts["addresses"].items() if address in known)
    return next(devices, "")
