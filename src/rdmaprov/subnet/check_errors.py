"""Judge the error counters of ports: by what they grew, by the traffic, or by their value."""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator

from rdmaprov.finding.finding import Finding
from rdmaprov.subnet.fabric import SubnetGraph
from rdmaprov.subnet.model import Cable, Kind, PortState, Reading, Subnet
from rdmaprov.subnet.names import place, stem
from rdmaprov.subnet.problem import wrong

# Our choice: where a third of the peers or more are slower, the fabric has two generations.
MOST_SLOW = 1 / 3
_WIDE = ("8X", "12X")  # what switch ports claim to support and no 4X cable can be
# The counts from which a port counts as bad: infiniband-diags, etc/error_thresholds and the
# thresholds of ibcheckerrs before it. Counters of congestion and of routing noise are left out:
# PortXmitWait, PortRcvSwitchRelayErrors, VL15Dropped, QP1Dropped.
THRESHOLDS = {
    "SymbolErrorCounter": 10,
    "LinkErrorRecoveryCounter": 10,
    "LinkDownedCounter": 10,
    "PortRcvErrors": 10,
    "PortRcvRemotePhysicalErrors": 100,
    "PortXmitDiscards": 100,
    "PortXmitConstraintErrors": 100,
    "PortRcvConstraintErrors": 100,
    "LocalLinkIntegrityErrors": 10,
    "ExcessiveBufferOverrunErrors": 10,
}
# One bit error in 10^12 bits is what InfiniBand allows (InfiniBand Architecture 1.5, volume 2).
MOST_BIT_ERRORS = 1e-12
_BIT_COUNTERS = ("SymbolErrorCounter", "PortRcvErrors", "LocalLinkIntegrityErrors")
_WORD_BITS = 32  # PortRcvData counts words of four bytes
_FULL_32 = 0xFFFFFFFF  # where a 32-bit counter stops


def rate_problems(subnet: Subnet, fabric: SubnetGraph) -> Iterator[Finding]:
    """Yield links that are slower than their peers or than both ends could be, and ports not up."""
    slow: set[tuple[int, int]] = set()
    for cables in _peers(subnet.discovery.cables, fabric).values():
        for cable, usual in _slower(cables):
            slow.update((cable.near.key, cable.far.key))
            end, other = sorted((cable.near, cable.far), key=lambda each: each.kind != Kind.SWITCH)
            what = f"{cable.rate()} to {fabric.end_label(other)}, its peers have {usual}"
            yield wrong("subnet.rate", fabric.node_label(end), end.port, what, gbps=cable.gbps)
    yield from _could_be(subnet, slow, fabric)
    yield from _not_active(subnet, fabric)


def _peers(cables: tuple[Cable, ...], fabric: SubnetGraph) -> dict[Hashable, list[Cable]]:
    """Return the links by what they should be alike in; HCAs by the kind of host and the device."""
    found: dict[Hashable, list[Cable]] = defaultdict(list)
    for cable in cables:
        if cable.gbps:
            found[_class(cable, fabric)].append(cable)
    return found


def _class(cable: Cable, fabric: SubnetGraph) -> Hashable:
    for end in (cable.near, cable.far):
        if end.kind is not Kind.SWITCH:
            at = place(end.name)
            return end.kind, stem(at.host), at.device
    levels = fabric.level_of(cable.near.guid), fabric.level_of(cable.far.guid)
    return min(levels), max(levels)


def _slower(cables: list[Cable]) -> Iterator[tuple[Cable, str]]:
    """Yield the few links below the rate of most of their peers, with that rate."""
    usual, count = Counter(cable.gbps for cable in cables).most_common(1)[0]
    slow = [cable for cable in cables if cable.gbps < usual]
    if count * 2 <= len(cables) or len(slow) >= MOST_SLOW * len(cables):
        return
    name = next(cable.rate() for cable in cables if cable.gbps == usual)
    for cable in slow:
        yield cable, name


def _could_be(subnet: Subnet, slow: set[tuple[int, int]], fabric: SubnetGraph) -> Iterator[Finding]:
    """Yield ports of which iblinkinfo says that they could be faster, if it says so of few.

    Many switches claim a width that no cable has, at every port: "Could be 12X" counts for nothing.
    """
    up = [state for state in subnet.states if state.physical == "LinkUp" and state.width]
    usual = Counter(_hint(state) for state in up)
    for state in up:
        if not (hint := _hint(state)) or (state.guid, state.port) in slow:
            continue
        if usual[hint] >= MOST_SLOW * len(up):
            continue
        cable = fabric.cables.get((state.guid, state.port))
        slow.update((cable.near.key, cable.far.key) if cable else ())
        rate = f"{state.width}X {state.lane_gbps:g} Gb/s"
        what = f"{rate} to {state.peer or 'its peer'}, could be {hint}"
        yield wrong("subnet.rate", state.name or hex(state.guid), state.port, what)


def _hint(state: PortState) -> str:
    return ", ".join(each for each in state.could_be if each not in _WIDE)


def _not_active(subnet: Subnet, fabric: SubnetGraph) -> Iterator[Finding]:
    """Yield ports with a link that the subnet manager has not made active."""
    for state in subnet.states:
        if state.physical == "LinkUp" and state.state not in ("Active", "Down"):
            what = f"the link is up, but the port is {state.state}: no subnet manager activated it"
            yield wrong("subnet.port", state.name or hex(state.guid), state.port, what)
    for hca in fabric.hcas:
        if not hca.end.lid:
            what = "the port has no LID: no subnet manager configured it"
            yield wrong("subnet.port", hca.end.name, hca.end.port, what)


def error_problems(subnet: Subnet, fabric: SubnetGraph) -> Iterator[Finding]:
    """Yield the ports with errors, each once with all its counters."""
    traffic, grown = _by_port(subnet)
    bad: dict[tuple[str, int], dict[str, tuple[str, int]]] = {}
    for reading in [*_named(subnet, fabric), *subnet.errors]:
        key = reading.name, reading.port
        for name, count in reading.counters.items():
            where = _lid_of(reading, fabric), reading.port
            if text := _judge(name, count, traffic.get(where, 0), grown.get(where)):
                bad.setdefault(key, {})[name] = text, count
    far_ends = _far_ends(fabric) if bad else {}
    for (name, port), found in sorted(bad.items()):
        text = ", ".join(text for text, _ in found.values()) + far_ends.get((name, port), "")
        counts = {counter: count for counter, (_, count) in found.items()}
        yield wrong("subnet.errors", name, port, text, **counts)


def _judge(name: str, count: int, words: int, grown: dict[str, int] | None) -> str:
    """Return what is wrong with one counter; nothing if it did not grow between two readings."""
    least = THRESHOLDS.get(name)
    if least is None or count < least:
        return ""
    if grown is not None and name in grown:
        return f"{name} grew by {grown[name]:,} to {count:,}" if grown[name] > 0 else ""
    bits = words * _WORD_BITS
    if name in _BIT_COUNTERS and bits and count / bits <= MOST_BIT_ERRORS:
        return ""
    return f"{name} {count:,}"


def _by_port(
    subnet: Subnet,
) -> tuple[dict[tuple[int, int], int], dict[tuple[int, int], dict[str, int]]]:
    """Return, by LID and port, the received words, and how much each counter grew."""
    traffic: dict[tuple[int, int], int] = {}
    grown: dict[tuple[int, int], dict[str, int]] = {}
    for readings in subnet.readings:
        first, last = readings[0], readings[-1]
        key = last.lid, last.port
        words = last.counters.get("PortRcvData", 0)
        traffic[key] = max(traffic.get(key, 0), 0 if words == _FULL_32 else words)
        if len(readings) > 1:
            grown.setdefault(key, {}).update(
                (name, count - first.counters.get(name, 0))
                for name, count in last.counters.items()
                if count >= first.counters.get(name, 0)
            )
    return traffic, grown


def _named(subnet: Subnet, fabric: SubnetGraph) -> Iterator[Reading]:
    """Yield the last reading of each port of perfquery, with the name of its node."""
    names = {hca.end.lid: hca.end.name for hca in fabric.hcas}
    names |= {end.lid: fabric.node_label(end) for end in fabric.switches}
    for readings in subnet.readings:
        last = readings[-1]
        name = names.get(last.lid, f"LID {last.lid}")
        yield Reading(name, last.port, last.counters, lid=last.lid)


def _lid_of(reading: Reading, fabric: SubnetGraph) -> int:
    if reading.lid:
        return reading.lid
    cable = fabric.cables.get((reading.guid, reading.port))
    if cable is None:
        return 0
    return cable.near.lid if cable.near.guid == reading.guid else cable.far.lid


def _far_ends(fabric: SubnetGraph) -> dict[tuple[str, int], str]:
    """Return the other end of each link, by the name and port of this one."""
    found = {}
    for cable in fabric.cables.values():
        for near, far in ((cable.near, cable.far), (cable.far, cable.near)):
            kind = "switch" if far.kind is Kind.SWITCH else "HCA"
            text = f" (cable to {kind} {fabric.end_label(far)})"
            found[near.name, near.port] = found[fabric.node_label(near), near.port] = text
    return found
