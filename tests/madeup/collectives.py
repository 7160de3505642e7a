"""How long a collective of a group takes, by latency and bandwidth along its rings or trees."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tests.madeup.condition import Condition, Floats
from tests.madeup.flows import Team, team_flows
from tests.madeup.network import Flows, times_per_byte

# Microseconds: NCCL's src/graph/tuning.cc (2.27), baseLatencies and hwLatencies, by algorithm and
# protocol (LL, LL128, Simple).
PROTOCOLS = ("LL", "LL128", "SIMPLE")
BASE_US = {"RING": (6.6, 14.0, 8.4), "TREE": (6.8, 14.0, 8.4), "NVLS_TREE": (0.0, 0.0, 0.0)}
NVLINK_US = {"RING": (0.6, 1.9, 3.4), "TREE": (0.6, 1.25, 4.0), "NVLS_TREE": (0.0, 0.0, 25.0)}
NET_US = {"RING": (2.7, 4.0, 14.0), "TREE": (5.0, 8.5, 14.0), "NVLS_TREE": (0.0, 0.0, 20.9)}
# Of Simple's bandwidth: a quarter of LL's 8 B are flags and it keeps no link full; LL128 has 120 B
# of data in 128 (the same file: 1/4 and .92).
# NCCL_ALGO without CollNet, as NCCL_COLLNET_ENABLE=0 has it.
NO_COLLNET = "^collnet"
PROTOCOL_SHARE = (0.25, 0.92, 1.0)


@dataclass(frozen=True)
class Cost:
    """What the collective of one team takes; its latency is by protocol, infinite for none."""

    algorithm: str
    latency_us: tuple[float, ...]
    second_per_byte: float

    def protocol(self, size: int) -> int:
        times = [self._us(size, at) for at in range(len(PROTOCOLS))]
        return times.index(min(times))

    def us(self, size: int) -> float:
        return self._us(size, self.protocol(size))

    def _us(self, size: int, protocol: int) -> float:
        share = PROTOCOL_SHARE[protocol]
        return self.latency_us[protocol] + 1e6 * self.second_per_byte * size / share


def costs(
    condition: Condition, teams: Sequence[Team], collective: str, algorithms: Sequence[str]
) -> tuple[list[Cost], Flows | None, Floats]:
    """Return what collectives of disjoint teams take side by side, their flows and losses."""
    parts = [
        team_flows(team, number, collective, name)
        for number, (team, name) in enumerate(zip(teams, algorithms, strict=True))
        if len(team.nodes) > 1
    ]
    outside, losses = np.zeros(len(teams)), np.zeros(0)
    flows = Flows.joined(parts) if parts else None
    if flows is not None:
        times, losses = times_per_byte(condition, flows)
        np.maximum.at(outside, flows.group, times)
    found = []
    for number, (team, name) in enumerate(zip(teams, algorithms, strict=True)):
        inside = inside_second_per_byte(condition, team, collective, name)
        slowest = max(float(outside[number]), inside)
        delay = float(condition.late_us[np.ix_(team.nodes, team.gpus)].max())
        latency = [each + delay for each in latencies(team, collective, name, condition)]
        found.append(Cost(name, tuple(latency), slowest))
    return found, flows, losses


def choose_algorithm(condition: Condition, team: Team, collective: str, wanted: str = "") -> str:
    """Return the algorithm that NCCL takes for long messages: it knows the shape, and no faults."""
    if collective != "all_reduce" or len(team.nodes) < 2:
        return "RING" if wanted.lower() == "ring" or not condition.shape.nvls else "NVLS"
    if wanted.lower() in ("ring", "tree"):
        return wanted.upper()
    if condition.shape.sharp == "used" and wanted != NO_COLLNET:
        return "COLLNET_DIRECT"
    if condition.shape.nvls and len(team.gpus) > 2:
        return "NVLS_TREE"
    # Rings win until their latency, of 2 (n - 1) steps, is a tenth of a message of 1 GiB.
    ring_us = latencies(team, collective, "RING", condition)[2]
    rate = condition.shape.line_gb_s * team.channels
    return "RING" if ring_us < 0.1 * 2 * (1 << 30) / rate / 1e3 else "TREE"


def inside_second_per_byte(
    condition: Condition, team: Team, collective: str, algorithm: str
) -> float:
    """Return the seconds for each byte within the slowest node, by NVLink."""
    many = len(team.gpus)
    if many == 1:
        return 0.0
    shape = condition.shape
    picked = condition.gpu_gb_s[np.ix_(team.nodes, team.gpus)]
    if algorithm.startswith(("NVLS", "COLLNET")) and collective == "all_reduce":
        whole = shape.nvls_gb_s * math.sqrt(condition.efficiency)
        rate = whole * float(picked.min()) / shape.nvlink_gb_s
        return 2 * (many - 1) / many / rate / 1e9
    ranks = team.ranks
    shares = {"all_reduce": 2.0, "all_to_all": (many - 1) / max(1, ranks - 1)}
    return shares.get(collective, 1.0) * (ranks - 1) / ranks / float(picked.min()) / 1e9


def latencies(team: Team, collective: str, algorithm: str, condition: Condition) -> list[float]:
    """Return the microseconds before and between the data, by protocol, as tuning.cc adds them."""
    nodes, many = len(team.nodes), len(team.gpus)
    name = "NVLS_TREE" if algorithm in ("NVLS", "COLLNET_DIRECT") else algorithm
    slow = float(condition.hop_us[list(team.nodes)].sum()) if nodes > 1 else 0.0
    found = []
    for at in range(len(PROTOCOLS)):
        local, far, base = NVLINK_US[name][at], NET_US[name][at], BASE_US[name][at]
        if name == "RING":
            rounds = 2 if collective == "all_reduce" else 1
            across = rounds * (nodes - 1) if nodes > 1 else 0
            steps = rounds * (nodes * many - 1) - across
            found.append(base + steps * local + across * far + rounds * slow)
        elif name == "TREE":
            depth = math.floor(math.log2(nodes)) if nodes > 1 else 0
            found.append(base + 2 * ((many - 1) * local + depth * far) + slow)
        else:
            depth = math.floor(math.log2(nodes)) if nodes > 1 else 0
            us = base + local + 2 * depth * far + slow if local else _tree_us(team, at) + slow
            found.append(us)
    return found


def _tree_us(team: Team, at: int) -> float:
    """Return a tree's latency for the protocols that NVLS does not have: NCCL takes a tree then."""
    depth = math.floor(math.log2(len(team.nodes)))
    local, far = NVLINK_US["TREE"][at], NET_US["TREE"][at]
    return BASE_US["TREE"][at] + 2 * ((len(team.gpus) - 1) * local + depth * far)
