"""Judge the cabling without a plan: by what a regular fabric does everywhere else."""

from collections import Counter, defaultdict
from collections.abc import Iterator

from rdmaprov.finding.finding import Finding
from rdmaprov.subnet.fabric import Hca, SubnetGraph, by_host
from rdmaprov.subnet.names import series, stem
from rdmaprov.subnet.problem import wrong

# Our choice: in a fabric that is cabled in the order of names, at most one host in seven that is
# between two of one leaf is on another; at least eight such hosts show the order.
MOST_ASTRAY = 1 / 7
LEAST_BETWEEN = 8
# Our choice: what at least two thirds of at least three peers do is the rule.
MOST = 2 / 3
LEAST_PEERS = 3
_PAIR = 2  # rails: each is the only witness against the other
_Hosts = dict[str, dict[str, Hca]]


def order_problems(fabric: SubnetGraph) -> Iterator[Finding]:
    """Yield hosts between two of one leaf that are on another, where nearly all follow the order.

    Hosts with several HCAs are judged by those (`check_cables.leaf_problems`).
    """
    hosts = {host: own for host, own in by_host(fabric).items() if len(own) == 1}
    between = list(_between(hosts))
    astray = [(host, hca, leaf) for host, hca, leaf in between if hca.switch != leaf]
    if len(between) < LEAST_BETWEEN or len(astray) > MOST_ASTRAY * len(between):
        return
    for host, hca, leaf in astray:
        text = (
            f"on {fabric.label(hca.switch)} port {hca.port}; the hosts before and after {host}"
            f" are on {fabric.label(leaf)}"
        )
        yield wrong("subnet.cabling", hca.end.name, hca.end.port, text)


def _between(hosts: dict[str, dict[str, Hca]]) -> Iterator[tuple[str, Hca, int]]:
    """Yield the hosts whose neighbours in name are on one leaf, with that leaf."""
    for host, own in sorted(hosts.items()):
        found = series(host)
        if found is None:
            continue
        names, number, width = found
        ((device, hca),) = own.items()
        beside = [hosts.get(names.name(number + step, width), {}).get(device) for step in (-1, 1)]
        leaves = {each.switch for each in beside if each}
        if None not in beside and len(leaves) == 1:
            yield host, hca, leaves.pop()


def identity_problems(fabric: SubnetGraph) -> Iterator[Finding]:
    """Yield LIDs that several ports of one connected fabric have, and switches without one."""
    owners: dict[tuple[int, int], list[str]] = defaultdict(list)
    for number, end in enumerate(fabric.switches):
        if end.lid:
            owners[fabric.parts[number], end.lid].append(fabric.label(number))
        else:
            text = "the switch has no LID: no subnet manager configured it"
            yield wrong("subnet.port", fabric.label(number), None, text)
    for hca in fabric.hcas:
        if hca.end.lid:
            owners[fabric.parts[hca.switch], hca.end.lid].append(hca.end.name)
    for (_, lid), names in sorted(owners.items()):
        if len(names) > 1:
            yield wrong(
                "subnet.port", names[0], None, f"LID {lid} belongs to {' and '.join(names[:3])}"
            )


def leaf_problems(fabric: SubnetGraph) -> Iterator[Finding]:
    """Yield HCAs that are not on the leaf where their host's other rails say that they belong."""
    hosts = by_host(fabric)
    beside = _leaves_beside(hosts)
    rails = _rails(hosts)
    for host, own in sorted(hosts.items()):
        for device, hca in sorted(own.items()):
            rail = rails.get(hca.switch, device)
            if rail == device:
                expected = _expected(own, device, beside)
            else:
                expected = _most_common(beside[rail, hca.switch, device])
            if expected is None or expected == hca.switch:
                continue
            if len(own) == _PAIR and _fits_neighbours(hosts, host, device):
                continue
            yield wrong(
                "subnet.cabling",
                hca.end.name,
                hca.end.port,
                f"on {fabric.label(hca.switch)} port {hca.port}; {device} of {host} belongs on"
                f" {fabric.label(expected)}, as the other HCAs of this host and leaf show",
            )


def _fits_neighbours(hosts: _Hosts, host: str, device: str) -> bool:
    """Return whether the hosts before and after in name have a device on the same leaf.

    Of two rails that contradict each other, it tells which one is right.
    """
    found = series(host)
    if found is None:
        return False
    own, number, width = found
    beside = [hosts.get(own.name(number + step, width), {}).get(device) for step in (-1, 1)]
    return all(each and each.switch == hosts[host][device].switch for each in beside)


def _leaves_beside(hosts: _Hosts) -> dict[tuple[str, int, str], Counter[int]]:
    """Return on which leaves a device is, for each leaf that another device of its host is on."""
    found: dict[tuple[str, int, str], Counter[int]] = defaultdict(Counter)
    for own in hosts.values():
        for device, hca in own.items():
            for other, seen in own.items():
                if other != device:
                    found[device, hca.switch, other][seen.switch] += 1
    return found


def _rails(hosts: _Hosts) -> dict[int, str]:
    """Return the device that most HCAs of a leaf are, for leaves of one rail."""
    found: dict[int, Counter[str]] = defaultdict(Counter)
    for own in hosts.values():
        for device, hca in own.items():
            found[hca.switch][device] += 1
    return {
        leaf: devices.most_common(1)[0][0]
        for leaf, devices in found.items()
        if devices.most_common(1)[0][1] >= max(LEAST_PEERS, MOST * devices.total())
    }


def _most_common(leaves: Counter[int]) -> int | None:
    return leaves.most_common(1)[0][0] if leaves else None


def _expected(
    own: dict[str, Hca], device: str, beside: dict[tuple[str, int, str], Counter[int]]
) -> int | None:
    """Return the leaf that most of the other rails expect; None if they do not agree."""
    votes: Counter[int] = Counter()
    for other, hca in own.items():
        if other == device:
            continue
        leaves = beside[other, hca.switch, device]
        leaf, count = leaves.most_common(1)[0]
        total = leaves.total()
        if total >= LEAST_PEERS and count >= MOST * total:
            votes[leaf] += 1
        elif own[device].switch in leaves:
            votes[own[device].switch] += 1
    if not votes:
        return None
    leaf, count = votes.most_common(1)[0]
    needed = max(1, len(own) - 1) / 2
    return leaf if count > needed or (len(own) == 2 and count == 1) else None


def missing_problems(fabric: SubnetGraph) -> Iterator[Finding]:
    """Yield the HCAs that most hosts of a kind have and one has not."""
    kinds: dict[str, _Hosts] = defaultdict(dict)
    for host, own in by_host(fabric).items():
        kinds[stem(host)][host] = own
    for hosts in kinds.values():
        devices = Counter(device for own in hosts.values() for device in own)
        for device, count in sorted(devices.items()):
            # Half of them, too: of two leaves of a rail, one may be off.
            if len(hosts) < LEAST_PEERS or count * 2 < len(hosts):
                continue
            for host, own in sorted(hosts.items()):
                if device not in own:
                    yield _missing(fabric, hosts, host, device)


def _missing(fabric: SubnetGraph, hosts: _Hosts, host: str, device: str) -> Finding:
    """Return the problem, with the leaf on which the device of the host's neighbours is."""
    leaves: Counter[int] = Counter()
    for own in hosts.values():
        if device in own and any(
            own[other].switch == mine.switch for other, mine in hosts[host].items() if other in own
        ):
            leaves[own[device].switch] += 1
    where = f", expected on {fabric.label(leaves.most_common(1)[0][0])}" if leaves else ""
    text = f"{device} is missing: no link, or the port is down{where}"
    return wrong("subnet.missing", f"{host} {device}", None, text)


def trunk_problems(fabric: SubnetGraph) -> Iterator[Finding]:
    """Yield leaves that have fewer cables to a switch than their peers, and swapped cables."""
    rows = _rows(fabric)
    for leaf, row in rows.items():
        peers = [other for name, other in rows.items() if name != leaf and _alike(row, other)]
        if len(peers) < LEAST_PEERS:
            continue
        usual, count = Counter(map(_frozen, peers)).most_common(1)[0]
        if count < MOST * len(peers) or _frozen(row) == usual:
            continue
        yield from _differences(fabric, leaf, row, dict(usual))


def _rows(fabric: SubnetGraph) -> dict[int, Counter[int]]:
    """Return how many cables each switch has to each switch above it."""
    rows: dict[int, Counter[int]] = {}
    for hop in fabric.hops:
        if fabric.is_up(hop):
            rows.setdefault(hop.source, Counter())[hop.target] += 1
    return rows


def _alike(row: Counter[int], other: Counter[int]) -> bool:
    return len(row.keys() & other.keys()) * 2 >= len(other)


def _frozen(row: Counter[int]) -> frozenset[tuple[int, int]]:
    return frozenset(row.items())


def _differences(
    fabric: SubnetGraph, leaf: int, row: Counter[int], usual: dict[int, int]
) -> Iterator[Finding]:
    more = [above for above in row if row[above] > usual.get(above, 0)]
    for above in sorted(usual):
        lacking = usual[above] - row[above]
        if lacking <= 0:
            continue
        text = f"{row[above]} of {usual[above]} cables to {fabric.label(above)} that its peers have"
        if more:
            where = ", ".join(fabric.label(each) for each in more)
            text += f", but more than they have to {where}: swapped cables"
        kind = "subnet.cabling" if more else "subnet.missing"
        yield wrong(kind, fabric.label(leaf), _port(fabric, leaf, above, more), text)


def _port(fabric: SubnetGraph, leaf: int, above: int, more: list[int]) -> int | None:
    """Return the port by which peers reach the switch above, where this one does not."""
    own = {port: hop.target for port, hop in fabric.by_port[leaf].items()}
    ports: Counter[int] = Counter(
        hop.port
        for hop in fabric.hops
        if hop.target == above
        and hop.source != leaf
        and fabric.levels[hop.source] == fabric.levels[leaf]
    )
    wrong_ports = [
        port
        for port in sorted(ports, key=lambda port: (-ports[port], port))
        if own.get(port) != above and (not more or own.get(port) in more)
    ]
    return wrong_ports[0] if wrong_ports else None
