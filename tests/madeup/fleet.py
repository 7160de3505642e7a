"""A made-up fleet: its parts, its clock, its counters; nodes and runner answer out of it."""

import random
import time
from collections import Counter

import numpy as np
from tests.madeup.clock import CLOCKS, Cost
from tests.madeup.condition import Condition
from tests.madeup.counters import Counters
from tests.madeup.faults import FaultKind, Truth
from tests.madeup.flows import Team, environment_rails
from tests.madeup.shape import EFFICIENCY, NOISE, FleetShape

from rdmaprov.acceptance.ranks.plan import GateJob


class MadeUpFleet:
    """Nodes that exist as numbers.

    Args:
        shape: what it is built of.
        kind: what is broken; None for a healthy fleet.
        seed: of all chance in it; the same seed gives the same fleet and the same answers.
        noise: one standard deviation of a repeated measurement, as a share.

    Attributes:
        seconds: on its own clock, the usual one.
        stages: seconds of each stage that ended, by each of CLOCKS.
        boots: how often each node has booted since.
    """

    def __init__(
        self, shape: FleetShape, kind: FaultKind | None = None, seed: int = 0, noise: float = NOISE
    ) -> None:
        picks = random.Random(f"{seed} {kind.name if kind else 'healthy'} {shape.nodes}")
        self.shape, self.noise = shape, noise
        self.chance = np.random.default_rng(picks.getrandbits(63))
        self.condition = Condition(shape, picks.uniform(*EFFICIENCY))
        self.truths: tuple[Truth, ...] = kind.breaks(self.condition, picks) if kind else ()
        self.counters = Counters(self.condition, self.chance)
        self.seconds, self._began = 0.0, int(time.time())
        self.stages: dict[str, list[float]] = {}
        self._spent = [0.0 for _ in CLOCKS]
        self._ranks_at: float | None = None
        self._stage_at = 0.0
        self.tasks = 0
        self.boots: Counter[int] = Counter()
        self._hcas = [f"mlx5_{rail}" for rail in range(shape.rails)]
        self.number_of = {name: number for number, name in enumerate(shape.names)}

    def pass_time(self, cost: float | Cost) -> None:
        taken = [cost(clock) if callable(cost) else cost for clock in CLOCKS]
        self._spent = [sum(both) for both in zip(self._spent, taken, strict=True)]
        self.seconds += taken[0]
        self.counters.pass_time(taken[0])

    def end_stage(self, name: str) -> None:
        self.stages[name] = self._spent
        self._spent = [0.0 for _ in CLOCKS]
        self._ranks_at, self._stage_at = None, self.seconds

    def start_ranks(self) -> None:
        self._ranks_at = self.seconds if self._ranks_at is None else self._ranks_at

    def since_ranks_s(self) -> float:
        """Return how long ago this stage's first ranks began to start; the stage, without any."""
        return self.seconds - (self._stage_at if self._ranks_at is None else self._ranks_at)

    def lose_link(self, node: int, rail: int) -> None:
        self.condition.link_up[node, rail] = False
        self.condition.dying_links.pop((node, rail), None)
        self.counters.lose_link(node, rail)

    def now_s(self) -> float:
        """Return what the clocks of its nodes show: what passes on them is its time alone."""
        return self._began + self.seconds

    def state(self) -> Condition:
        """Return the condition that holds now: an intermittent fault shows only at times."""
        sound, duty = self.condition.sound, self.condition.duty
        return sound if sound is not None and self.chance.random() > duty else self.condition

    def environment(self, job: GateJob, node: int) -> dict[str, str]:
        """Return the variables of a node's ranks: what the job gives, and what the node has."""
        given = job.environment.get(self.shape.names[node], {})
        # What a node's own nccl.conf says, the environment of the job outweighs.
        return {**self.condition.environment.get(node, {}), **given}

    def rails(self, job: GateJob, node: int, gpus: tuple[int, ...]) -> tuple[int, ...]:
        """Return the rails that NCCL uses for some GPUs of a node: of those with a link, theirs."""
        there = [rail for rail, up in enumerate(self.condition.link_up[node].tolist()) if up]
        found = environment_rails(there, self._hcas, self.environment(job, node))
        near = {self.shape.rail_of(gpu) for gpu in gpus}
        return tuple(rail for rail in found if rail in near) or found[:1]

    def team(self, job: GateJob, ranks: tuple[int, ...]) -> Team:
        of = [(self.number_of[job.node_of(rank)], rank % job.per_node) for rank in ranks]
        nodes = tuple(dict.fromkeys(node for node, _ in of))
        gpus = tuple(sorted({gpu for _, gpu in of}))
        if len(nodes) == 1:
            return Team(nodes, gpus, ((),))
        return Team(nodes, gpus, tuple(self.rails(job, node, gpus) for node in nodes))

    def speaks_sockets(self, job: GateJob, node: int) -> bool:
        return self.environment(job, node).get("NCCL_IB_DISABLE", "0") != "0"
