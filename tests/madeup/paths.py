"""Tests of single paths on a made-up fleet: what perftest would report, from its physics."""

from collections.abc import Mapping, Sequence
from copy import copy

import numpy as np
from tests.madeup.condition import Condition, Floats, Ints
from tests.madeup.fleet import MadeUpFleet
from tests.madeup.network import Flows, times_per_byte

from rdmaprov.perftest.model import HOST_MEMORY, PathResult, PathTest

# What RoCE v2 leaves of a line at an MTU of 4096: 82 B of headers and gaps for each packet, and 4
# more for a VLAN's tag. perftest has no steps of an algorithm that would cost more.
PAYLOAD = 4096 / (4096 + 86)
# One way with one switch between two NICs, µs, and what two more switches add: ib_write_lat says
# 2 µs of NICs in one rack; the second is what docs/diagnosis.md has for a longer cable's way. Both
# are our choice: what counts is that they differ.
NEAR_US, FAR_US = 2.0, 1.5
# perftest's `-D 3` with its start and its end over an open connection, and 1000 round trips of a
# few bytes; our choice, larger than perftest itself needs.
SECONDS = {"bandwidth": 8.0, "latency": 4.0}
# What changes a port, a slot, a link, a switch or a path, so that RDMA itself shows it.
SHOWN = (
    "swapped-rails", "wrong-leaf", "leaf-uplinks", "leaf-lossy", "spine-uneven", "no-pfc-switch",
    "bad-path", "hash-collisions", "dead-node", "half-slot", "rail-down", "rail-dies", "slow-rail",
    "lossy-rail", "flapping-rail", "wrong-priority", "intermittent", "two-slots", "other-traffic",
    "node-dies", "liar-healthy",
)  # fmt: skip


class MadeUpPaths:
    """Implements rdmaprov.perftest.model.PathMeasurer."""

    def __init__(self, fleet: MadeUpFleet) -> None:
        self.fleet, self.rounds = fleet, 0

    def measure(self, tests: Sequence[PathTest]) -> Mapping[PathTest, PathResult]:
        """Return what came of tests that run at once; a port sends, and receives, in one."""
        fleet = self.fleet
        for ends in ([t.sender for t in tests], [t.receiver for t in tests]):
            if len(set(ends)) < len(ends):
                raise ValueError("a port is in two tests of one direction")
        for (node, rail), after in list(fleet.condition.dying_links.items()):
            if self.rounds >= after:
                fleet.lose_link(node, rail)
        self.rounds += 1
        seconds = max((SECONDS[test.measures] for test in tests), default=0.0)
        fleet.pass_time(seconds)
        condition = fleet.state()
        broken = self._broken_ports(condition, seconds)
        errors = {test: self._error(test, broken) for test in tests}
        found = {test: PathResult(test, error=why) for test, why in errors.items() if why}
        going = [test for test, why in errors.items() if not why]
        for kind, rate in (("bandwidth", self._rates), ("latency", self._latencies)):
            own = [test for test in going if test.measures == kind]
            for test, value in zip(own, rate(condition, own) if own else (), strict=True):
                is_rate, number = kind == "bandwidth", float(value)
                found[test] = PathResult(test, *((number, 0.0) if is_rate else (0.0, number)))
        return found

    def _broken_ports(self, condition: Condition, seconds: float) -> set[tuple[int, int]]:
        rails = condition.shape.rails
        wrong = condition.switch_of % rails != np.arange(rails)[None, :]
        flaps = self.fleet.chance.poisson(condition.flaps_per_s * seconds) > 0
        nodes, ports = np.nonzero(~condition.link_up | wrong | flaps)
        return set(zip(nodes.tolist(), ports.tolist(), strict=True))

    def _error(self, test: PathTest, broken: set[tuple[int, int]]) -> str:
        ends = (
            self._port(test.sender.node, test.sender.rail),
            self._port(test.receiver.node, test.receiver.rail),
        )
        gone = [self._is_gone(node) for node, _ in ends]
        if gone[0]:
            return "not-run"
        if gone[1]:
            return "no-answer"
        return "completion" if broken.intersection(ends) else ""

    def _port(self, name: str, rail: int) -> tuple[int, int]:
        return self.fleet.number_of[name], rail

    def _is_gone(self, node: int) -> bool:
        condition = self.fleet.condition
        dead = (
            fault.what == "node-dies" and self.rounds > fault.after
            for (own, _), fault in condition.ranks.items()
            if own == node
        )
        return node in condition.unreachable or any(dead)

    def _flows(self, tests: Sequence[PathTest]) -> Flows:
        number = self.fleet.number_of

        def array(values: list[int]) -> Ints:
            return np.array(values, dtype=np.int64)

        return Flows(
            array([number[test.sender.node] for test in tests]),
            array([number[test.receiver.node] for test in tests]),
            array([test.sender.rail for test in tests]),
            array([test.receiver.rail for test in tests]),
            np.ones(len(tests)),
            np.arange(len(tests)),
        )

    def _rates(self, condition: Condition, tests: Sequence[PathTest]) -> Floats:
        """Return what each test reports, GB/s; noise only makes it less, as the line is a limit."""
        flows = self._flows(tests)
        times, _ = times_per_byte(_for_writes(condition, tests, self.fleet.number_of), flows)
        noise = np.abs(self.fleet.chance.normal(0, self.fleet.noise, len(tests)))
        rates: Floats = 1e-9 / times * (1 - noise)
        for at in range(len(tests)):
            lie = condition.liars.get(int(flows.source[at]))
            if lie is not None:
                rates[at] = condition.shape.line_gb_s * PAYLOAD * (1 if lie == "healthy" else 0.1)
        return rates

    def _latencies(self, condition: Condition, tests: Sequence[PathTest]) -> Floats:
        """Return what each test reports, µs."""
        flows = self._flows(tests)
        up = condition.switch_of[flows.source, flows.out]
        far = up != condition.switch_of[flows.target, flows.into]
        noise = np.abs(self.fleet.chance.normal(0, self.fleet.noise, len(tests)))
        found: Floats = (NEAR_US + FAR_US * far) * (1 + noise)
        return found


def _for_writes(
    condition: Condition, tests: Sequence[PathTest], number: Mapping[str, int]
) -> Condition:
    """Return the condition as RDMA writes see it: a NIC alone moves the data, from its memory."""
    seen = copy(condition)
    seen.efficiency = PAYLOAD
    seen.hop_us = np.zeros_like(condition.hop_us)
    seen.via_host = np.zeros_like(condition.via_host)
    for test in tests:
        for end in (test.sender, test.receiver):
            # Data in host memory is where a CPU's NIC would take it anyway.
            if end.memory != HOST_MEMORY and not end.memory.startswith("numa"):
                port = number[end.node], end.rail
                seen.via_host[port] = condition.via_host[port]
    return seen
