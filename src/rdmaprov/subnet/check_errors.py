"""Judge the error counters of ports: by what they grew, by the traffic, or by their value."""

from __future__ import annotations

from collections.abc import Iterator

from rdmaprov.finding.finding import Finding
from rdmaprov.subnet.fabric import SubnetGraph
from rdmaprov.subnet.model import Kind, Reading, Subnet
from rdmaprov.subnet.problem import wrong

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
