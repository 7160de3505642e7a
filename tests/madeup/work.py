"""A task on a made-up fleet: what it costs, what its ranks report, what its ports count."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tests.madeup.collectives import NO_COLLNET, Cost, choose_algorithm, costs
from tests.madeup.condition import Floats
from tests.madeup.fleet import MadeUpFleet
from tests.madeup.flows import Team
from tests.madeup.gpus import gpu_events
from tests.madeup.network import Flows
from tests.madeup.wrong import wrong_events

from rdmaprov.acceptance.ranks.plan import GateJob, Task

Event = dict[str, Any]
_WAITS, _PINGS, _BURST_BYTES = 50, 20, 4 << 20  # as agent/latency.py has them
_RANK_NOISE = 0.001  # ranks of one collective end together, but for their own clocks
# Half a round trip of 8 B between two GPUs behind one leaf, with NCCL's proxies; and a pair of
# switches and cables more for each way over the spine (switches of 0.6 µs: NVIDIA Spectrum-4).
_PING_US, _SPINE_US = 9.0, 1.5
# How long a link that flaps is away: training takes seconds at 400G; our choice.
_FLAP_US = 3e6
_GPU_S = 34.0  # the stage gpu without torch's start, on an H200 (docs/one-gpu.md)


@dataclass
class WorkDone:
    """What came of a task; its costs are those of the condition at its start."""

    events: list[Event] = field(default_factory=list)
    seconds: float = 0.0
    algorithms: list[str] = field(default_factory=list)
    costs: list[Cost] = field(default_factory=list)
    flows: Flows | None = None


def perform(fleet: MadeUpFleet, job: GateJob, task: Task) -> WorkDone:
    """Have ranks do what a task asks for, without anything that stops them."""
    done = WorkDone()
    if task.collective == "gpu":
        done.events = gpu_events(fleet, job, task)
        done.events += [
            {"event": "finished", "rank": r, "task": task.number, "seconds": _GPU_S}
            for r in task.group_of
        ]
        done.seconds = _GPU_S
        return done
    teams = [fleet.team(job, ranks) for ranks in task.groups]
    wanted = [_algorithm_of(fleet, job, team) for team in teams]
    kind = _collective(task)
    done.algorithms = [
        choose_algorithm(fleet.condition, team, kind, name)
        for team, name in zip(teams, wanted, strict=True)
    ]
    work = _Work(fleet, job, task, teams, done)
    if teams:
        work.do()
    everyone = range(job.world)
    own = {"task": task.number, "seconds": done.seconds}
    done.events += [{"event": "finished", "rank": r, **own} for r in everyone]
    return done


def _collective(task: Task) -> str:
    """Return the collective that a task's data move by: others than Task names are all-reduces."""
    return "all_reduce" if task.collective == "exchange" else task.collective


def _algorithm_of(fleet: MadeUpFleet, job: GateJob, team: Team) -> str:
    """Return NCCL_ALGO of a team's first node: where they differ, ranks hang (runner.py)."""
    own = fleet.environment(job, team.nodes[0])
    return own.get("NCCL_ALGO", NO_COLLNET if own.get("NCCL_COLLNET_ENABLE") == "0" else "")


class _Work:
    def __init__(
        self, fleet: MadeUpFleet, job: GateJob, task: Task, teams: Sequence[Team], done: WorkDone
    ) -> None:
        self.fleet, self.job, self.task, self.teams, self.done = fleet, job, task, teams, done
        self._kind = _collective(task)
        self._known: dict[int, tuple[list[Cost], Flows | None, Floats]] = {}

    def do(self) -> None:
        """Run the task; add its events, costs and flows to what is done."""
        done, task = self.done, self.task
        done.costs, done.flows, _ = self._costs()
        name = "pairs" if task.collective == "exchange" else "sweep"
        self._say_all("phase", of_task=False, phase=f"{task.plane}: {name}")
        if task.collective == "exchange":
            self._exchange()
        elif task.soak_s:
            self._soak()
        else:
            self._sweep()
        if task.collective == "all_reduce":
            self._wait()
        due = self._due_bytes()
        for group, ranks in enumerate(task.groups):
            for rank in ranks:
                if rank % self.job.per_node == 0:
                    self._say("moved", rank, group, due_bytes=due[group], bytes={"eno1": 1_000_000})

    def _costs(self) -> tuple[list[Cost], Flows | None, Floats]:
        state = self.fleet.state()
        if id(state) not in self._known:
            self._known[id(state)] = costs(state, self.teams, self._kind, self.done.algorithms)
        return self._known[id(state)]

    def _say(self, event: str, rank: int, group: int, **more: Any) -> None:
        of = {"plane": self.task.plane, "task": self.task.number, "group": group}
        self.done.events.append({"event": event, "rank": rank, **of, **more})

    def _say_all(self, event: str, of_task: bool = True, **more: Any) -> None:
        for group, ranks in enumerate(self.task.groups):
            for rank in ranks:
                if of_task:
                    self._say(event, rank, group, **more)
                else:
                    self.done.events.append({"event": event, "rank": rank, **more})

    def _sweep(self) -> None:
        used = 0.0
        for size in sorted(self.task.sizes, reverse=True):
            if used > self.task.limit_s:
                self._say_all("cut", bytes=size, used_s=round(used, 3))
                break
            for in_place in (True, False):
                used += self._time_size(size, in_place)
            self._say_all("checked", bytes=size, dtypes=list(self.task.dtypes))
        self.done.seconds += used
        self.done.events += wrong_events(self.fleet, self.job, self.task)

    def _time_size(self, size: int, in_place: bool) -> float:
        now, flows, lost = self._costs()
        least, most, budget = self.task.repeat
        # A message is counted as nccl-tests does: for these, the larger buffer is that of all.
        slowest = 0.0
        bytes_of = np.zeros(len(now))
        for group, (cost, ranks) in enumerate(zip(now, self.task.groups, strict=True)):
            us = cost.us(size) * self._noise()
            count = int(min(most, max(least, int(budget / max(1e-6 * us, 1e-7)))))
            # Each type is verified once, and each run is done on data that is verified.
            runs = count + 1 + len(self.task.dtypes)
            slowest = max(slowest, 1e-6 * us * runs * 2)
            bytes_of[group] = size * runs
            stall_us = self._stall_us(self.teams[group], 1e-6 * us * runs)
            slowest += 1e-6 * stall_us
            self._say_times(group, ranks, size, in_place, count, us, stall_us)
        self._count(flows, lost, bytes_of)
        return slowest

    def _say_times(
        self,
        group: int,
        ranks: Sequence[int],
        size: int,
        in_place: bool,
        count: int,
        us: float,
        stall_us: float,
    ) -> None:
        chance = self.fleet.chance
        own = 1 + _RANK_NOISE * chance.standard_normal(len(ranks))
        late = abs(chance.standard_normal()) * 3 * self.fleet.noise
        early = abs(chance.standard_normal()) * self.fleet.noise
        task, said = self.task, self.done.events
        row = {"event": "row", "rank": 0, "plane": task.plane, "task": task.number, "group": group}
        row |= {"dtype": task.dtypes[0], "bytes": size, "in_place": in_place, "count": count}
        lies = bool(self.fleet.condition.liars)
        for rank, share in zip(ranks, own.tolist(), strict=True):
            mine = us * share * (self._lie(rank) if lies else 1.0)
            said.append(
                {
                    **row,
                    "rank": rank,
                    "median_us": round(mine, 1) or 0.1,
                    "p99_us": round(mine * (1 + late) + stall_us, 1) or 0.1,
                    "min_us": round(mine / (1 + early), 1) or 0.1,
                }
            )

    def _stall_us(self, team: Team, seconds: float) -> float:
        """Return what a link that goes down adds to one run: until NCCL's retries get through."""
        flaps = self.fleet.condition.flaps_per_s[list(team.nodes)].sum()
        hit = len(team.nodes) > 1 and self.fleet.chance.random() < 1 - np.exp(-flaps * seconds)
        return _FLAP_US if hit else 0.0

    def _lie(self, rank: int) -> float:
        """Return by what a node shortens its times: it says what a good one would."""
        node = self.fleet.number_of[self.job.node_of(rank)]
        return 0.5 if self.fleet.condition.liars.get(node) == "healthy" else 1.0

    def _noise(self) -> float:
        return float(np.exp(self.fleet.noise * self.fleet.chance.standard_normal()))

    def _count(self, flows: Flows | None, lost: Floats, bytes_of: Floats) -> None:
        if flows is not None:
            self.fleet.counters.move(flows, lost, bytes_of[flows.group])

    def _due_bytes(self) -> list[int]:
        """Return what each rank of a group had to send in the task, by the sum of a ring."""
        least, most, budget = self.task.repeat
        found = []
        for cost, team in zip(self.done.costs, self.teams, strict=True):
            moved = 0
            for size in self.task.sizes:
                once = 1e-6 * cost.us(size)
                runs = int(min(most, max(least, int(budget / max(once, 1e-7))))) + 1
                rounds = 2 if self._kind == "all_reduce" else 1
                moved += 2 * rounds * size * runs * (team.ranks - 1) // team.ranks
            found.append(moved)
        return found

    def _wait(self) -> None:
        """Report small all-reduces: whoever comes late waits least."""
        chance = self.fleet.chance
        for group, (cost, team) in enumerate(zip(self.done.costs, self.teams, strict=True)):
            ranks = self.task.groups[group]
            late = self.fleet.condition.late_us[np.ix_(team.nodes, team.gpus)].ravel()
            base = cost.us(8) - float(late.max(initial=0.0))
            jitter = chance.gamma(2.0, 2.0, (len(ranks), _WAITS))
            behind = (
                late[: len(ranks), None] * chance.uniform(0.8, 1.2, (len(ranks), _WAITS)) + jitter
            )
            us = base * self._noise() + behind.max(0) - behind
            for rank, own in zip(ranks, np.round(us, 1).tolist(), strict=True):
                self._say("waits", rank, group, us=own)
            self.done.seconds += 1e-6 * _WAITS * float(us.max(initial=0.0))

    def _exchange(self) -> None:
        """Report the round trip and the bursts of pairs, all of them side by side."""
        fleet = self.fleet
        _, flows, lost = self._costs()
        per_byte = [cost.second_per_byte / 1.0 for cost in self.done.costs]
        bytes_of = np.full(len(self.teams), float(4 * _BURST_BYTES))
        for group, (team, ranks) in enumerate(zip(self.teams, self.task.groups, strict=True)):
            us = self._ping_us(team)
            rate = (
                1 / max(per_byte[group], 1e-12) / 1e9
                if len(team.nodes) > 1
                else (fleet.shape.nvlink_gb_s)
            )
            for at in (0, 1):
                gb_s = 1 / (1 / rate + 2 * us * 1e-6 / _BURST_BYTES * 1e9) * self._noise()
                self._say(
                    "pair",
                    ranks[at],
                    group,
                    to=ranks[1 - at],
                    us=round(us * self._noise(), 1),
                    gb_s=gb_s,
                    reduce_us=round(2.2 * us * self._noise(), 1),
                )
        self._count(flows, lost, bytes_of)
        self.done.seconds += 0.1

    def _ping_us(self, team: Team) -> float:
        """Return half a round trip of two ranks, microseconds."""
        condition = self.fleet.condition
        late = float(condition.late_us[np.ix_(team.nodes, team.gpus)].max())
        if len(team.nodes) < 2:
            return 4.0 + late / 2
        one, other = team.nodes[:2]
        rail, far = team.rails[0][0], team.rails[1][0]
        same = condition.switch_of[one, rail] == condition.switch_of[other, far]
        slow = float(condition.hop_us[one] + condition.hop_us[other])
        return _PING_US + (0 if same else _SPINE_US) + slow + late / 2

    def _soak(self) -> None:
        """Report intervals of ten seconds, each in the condition that holds then."""
        size = max(self.task.sizes, default=1 << 30)
        for interval in range(int(self.task.soak_s // 10)):
            now, flows, lost = self._costs()
            bytes_of = np.zeros(len(now))
            for group, (cost, ranks) in enumerate(zip(now, self.task.groups, strict=True)):
                us = cost.us(size) * self._noise()
                count = max(1, int(10e6 / us))
                bytes_of[group] = size * count
                for rank in ranks:
                    self._say(
                        "soak",
                        rank,
                        group,
                        interval=interval,
                        count=count,
                        median_us=round(us, 1),
                        min_us=round(us * 0.99, 1),
                        max_us=round(us * (1 + 3 * self.fleet.noise), 1),
                    )
            self._count(flows, lost, bytes_of)
        self.done.seconds += self.task.soak_s
        self.done.events += wrong_events(self.fleet, self.job, self.task)
