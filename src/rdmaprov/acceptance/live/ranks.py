"""Groups of nodes that measure side by side, with ranks that stay alive from round to round."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, TypeVar

from rdmaprov.acceptance.at_fault import run as blame
from rdmaprov.acceptance.evidence import measure
from rdmaprov.acceptance.preflight.gate_site import GateSite
from rdmaprov.acceptance.ranks import jobs, rail_map
from rdmaprov.acceptance.ranks.launch import JobRunner, RankSession
from rdmaprov.acceptance.ranks.nccl_logs import log_files
from rdmaprov.acceptance.ranks.plan import LEAST_S, TIMES, GateJob, Task
from rdmaprov.acceptance.ranks.run import JobRun, NodeRun
from rdmaprov.finding.finding import Finding
from rdmaprov.inventory import Node
from rdmaprov.isolation import model
from rdmaprov.isolation.meetings import Pair
from rdmaprov.isolation.model import FaultyPart
from rdmaprov.words import quantity, some

Group = tuple[str, ...]
Ranks = tuple[tuple[int, ...], ...]
_Key = TypeVar("_Key")
# Each of them costs the start of all ranks, minutes where many import torch.
MOST_SESSIONS = 8
# Of who hung: as often as its ranks had measured before, as a hang may take its time. Our choice.
_MOST_AGAIN = 8
# That are kept: of all pairs, 700 nodes have as many. Our choice.
MOST_TESTS = 250_000
# NCCL, src/init.cc: what a communicator uses; real lines are in tests/fixtures/nccl.
_LINE = re.compile(r"NCCL INFO Using network (\w{1,40})")


@dataclass
class LiveRanks:
    """Ranks on all nodes of a site that are told round by round who measures with whom.

    A session ends when a rank fails. The next round begins a new one, without the nodes that the
    evidence names.

    Args:
        site: what is known of the nodes; each is in the session, if only to wait.
        stage: the name of the stage, as the ranks' events have it.
        tests: all that groups reach is added here, a mapping for each group.
        say: is called with what is found, at once.

    Attributes:
        rates: what groups reached, in GB/s, by plane; of all rounds.
    """

    site: GateSite
    runner: JobRunner
    stage: str
    tests: list[dict[str, Any]] = field(default_factory=list)
    say: Callable[[str], None] = lambda _text: None
    lost: set[str] = field(default_factory=set)
    findings: list[Finding] = field(default_factory=list)
    runs: list[JobRun] = field(default_factory=list)
    rounds: int = 0
    rates: dict[str, list[float]] = field(default_factory=dict)
    _stack: ExitStack = field(default_factory=ExitStack)
    _session: RankSession | None = None
    _sessions: int = 0
    _task: int = 0

    @contextmanager
    def opened(self) -> Iterator[LiveRanks]:
        """Provide it; its ranks end with the context."""
        with self._stack:
            yield self

    def planes(self) -> tuple[str, ...]:
        """Return the planes that are measured one after the other."""
        job = self._job()
        return tuple(plane.name for plane in job.planes) if job else ()

    def measure(self, groups: Sequence[Group], plane: str = "") -> dict[Group, float]:
        """Return what each group of nodes reaches while all of them measure, in GB/s.

        0 for a group that hung and nothing says why. If a node failed, groups that had not ended
        have no result: they may have ended with it.
        """
        if (job := self._job()) is None:
            return {}
        ranks = {group: _ranks(job, group) for group in groups if self._is_there(group)}
        found = self._measure(ranks, plane)
        self.rates.setdefault(plane or job.planes[0].name, []).extend(found.values())
        return found

    def measure_gpus(
        self, groups: Sequence[Group], collective: str = "all_reduce"
    ) -> dict[tuple[Group, int], float]:
        """Return what groups reach with one GPU of each node, by the number of that GPU.

        All GPUs measure at once. NCCL uses the rail that is next to the GPU.
        """
        if (job := self._job()) is None:
            return {}
        ranks = {
            (group, local): tuple(job.ranks_of(name)[local] for name in group)
            for group in groups
            if self._is_there(group)
            for local in range(job.per_node)
        }
        return self._measure(ranks, "", collective)

    def measure_latencies(self, pairs: Sequence[Pair]) -> dict[Pair, float]:
        """Return half a round trip of 8 B between the first ranks of two nodes, microseconds.

        All pairs at once. 0 for one that hung and nothing says why.
        """
        if (job := self._job()) is None:
            return {}
        ranks = {
            (one, other): (job.ranks_of(one)[0], job.ranks_of(other)[0])
            for one, other in pairs
            if self._is_there((one, other))
        }
        return self._perform(ranks, _exchange_task, _latencies)

    def _is_there(self, group: Group) -> bool:
        return self.lost.isdisjoint(group)

    def _measure(
        self, ranks: Mapping[_Key, tuple[int, ...]], plane: str, collective: str = "all_reduce"
    ) -> dict[_Key, float]:
        def group_task(job: GateJob, number: int, groups: Ranks) -> Task:
            size = jobs.group_bytes(self.site)
            task = jobs.group_task(job, number, self.stage, plane, groups, size)
            return replace(task, collective=collective)

        return self._perform(ranks, group_task, _rates)

    def _perform(
        self,
        ranks: Mapping[_Key, tuple[int, ...]],
        make: Callable[[GateJob, int, Ranks], Task],
        read: Callable[[JobRun, Task, int], Mapping[int, float]],
    ) -> dict[_Key, float]:
        """Return what `read` takes from a task's events, by group; 0 for one that hung."""
        session = self._open()
        if session is None or not ranks:
            return {}
        [run] = session.runs
        task = make(run.job, self._task, tuple(ranks.values()))
        self._task += 1
        self.rounds += 1
        before, keys = len(run.events), list(ranks)
        session.perform({0: task})
        found = {keys[group]: value for group, value in read(run, task, before).items()}
        hung = run.has_failed and not self._close(run)
        if hung:  # else the session ended before they could
            found |= dict.fromkeys((key for key in ranks if key not in found), 0.0)
        self._keep_tests(task, found, "us" if read is _latencies else "gb_s")
        if hung:
            self._settle(run, task, [found[key] > 0.0 for key in keys])
        there = (each for each in found.items() if not self._has_lost(run.job, ranks[each[0]]))
        return dict(there)

    def _settle(self, run: JobRun, task: Task, passed: Sequence[bool]) -> None:
        """Test each node of groups that hung with one that passed; take out who hangs again.

        These few start sooner than the fleet. NCCL had its say on a broken path before.
        """
        groups = [tuple(dict.fromkeys(map(run.job.node_of, own))) for own in task.groups]
        good = [name for own, ended in zip(groups, passed, strict=True) if ended for name in own]
        hung = dict.fromkeys(own for own, it in zip(groups, passed, strict=True) if not it)
        ends = list(dict.fromkeys(name for own in hung for name in own))
        free = [name for name in dict.fromkeys(good) if name not in ends]
        if not 0 < len(ends) <= len(free):
            return
        pairs = dict(zip(ends, free, strict=False))
        there = {*pairs, *pairs.values()}
        site = self.site.without({n.name for n in self.site.nodes if n.name not in there})
        job = jobs.session_job(site, len(self.runs))
        limits = replace(job.limits, step=max(LEAST_S, TIMES * run.late_groups(task)[1]))
        ranks, size = tuple(_ranks(job, pair) for pair in pairs.items()), jobs.group_bytes(site)
        again = jobs.group_task(job, 0, self.stage, task.plane, ranks, size)
        with self.runner.open([replace(job, limits=limits)]) as session:
            [ran] = session.runs
            for number in range(min(self._task, _MOST_AGAIN)):
                session.perform({0: (again := replace(again, number=number))})
                if ran.has_failed:
                    break
        self.runs.append(ran)
        if self._blame(ran):
            return
        reached = _rates(ran, again, 0)
        kept = {pair: reached.get(number, 0.0) for number, pair in enumerate(pairs.items())}
        self._keep_tests(again, kept, "gb_s")
        bad = {ends[number] for number in ran.late_groups(again)[0]}
        for own in hung:
            if len(guilty := bad.intersection(own)) == 1:
                name, *_ = guilty
                others = some([each for each in (*own, pairs[name]) if each != name], 4)
                why = f"it hung with {others}, which pass without it"
                self._add(model.findings([FaultyPart("node", (name,), True, why)]))

    def _keep_tests(self, task: Task, found: Mapping[Any, float], unit: str) -> None:
        """Keep what a task showed, for who asks later what a verdict rests on."""
        at = datetime.now(UTC).isoformat(timespec="seconds")
        nodes = {node.name: node for node in self.site.nodes}
        planes = {each.name: each.rail for each in self.runs[-1].job.planes}
        alone = planes.get(task.plane)
        for key, value in list(found.items())[: MOST_TESTS - len(self.tests)]:
            group, gpu = key if isinstance(key[0], tuple) else (key, None)
            rail = alone if gpu is None else rail_of(nodes[group[0]], gpu, self.site.per_node)
            of = {"time": at, "stage": self.stage, "plane": task.plane, "nodes": list(group)}
            of["collective"] = task.collective
            self.tests.append({**of, "gpu": gpu, "rail": rail, unit: round(value, 3)})

    def _has_lost(self, job: GateJob, ranks: Sequence[int]) -> bool:
        return any(job.node_of(rank) in self.lost for rank in ranks)

    def _job(self) -> GateJob | None:
        """Return the job of the session; None where none can be opened any more."""
        session = self._open()
        return session.runs[0].job if session else None

    def _open(self) -> RankSession | None:
        """Return the session; None where too many have failed, or too few nodes are left."""
        if self._session is None and self._sessions < MOST_SESSIONS:
            site = self.site.without(self.lost)
            if len(site.nodes) < 2:
                return None
            job = jobs.session_job(site, len(self.runs))
            self._sessions += 1
            self._task = 0
            self._session = self._stack.enter_context(self.runner.open([job]))
            self.runs += self._session.runs
        return self._session

    def _close(self, run: JobRun) -> bool:
        """End a session that failed; take out the nodes that its evidence names, if it does."""
        self._stack.close()
        self._session = None
        return self._blame(run)

    def _blame(self, run: JobRun) -> bool:
        # Ranks that cannot connect all wait alike: only the logs say who takes another network.
        where = rail_map.site_map(self.site.nodes, self.site.facts)
        found = list(odd_networks(run.nodes)) or blame.findings(run, where)
        return self._add(found)

    def _add(self, found: Sequence[Finding]) -> bool:
        """Take out the nodes that findings name, and say so; return whether they name any."""
        # What concerns the whole fleet takes out nobody: the others would go with it.
        named = {name for each in found if each.level != "fleet" for name in each.nodes}
        for each in found if named else ():
            if each not in self.findings:
                self.findings.append(each)
                self.say(f"{self.stage}: {each.text}")
        self.lost |= named
        return bool(named)


def rail_of(node: Node, gpu: int, gpus: int) -> int | None:
    """Return the rail next to a GPU, as the site says or as their numbers do; None: unknown."""
    rails = node.compute_rails
    by_site = [rail.index for rail in rails if gpu in rail.gpus]
    if by_site:
        return by_site[0] if len(by_site) == 1 else None
    return rails[gpu * len(rails) // gpus].index if gpus % len(rails) == 0 else None


def _ranks(job: GateJob, nodes: Group) -> tuple[int, ...]:
    return tuple(rank for name in nodes for rank in job.ranks_of(name))


def _rates(run: JobRun, task: Task, first: int) -> dict[int, float]:
    """Return the bus bandwidth of each group that finished, in GB/s, by the events since one."""
    rate: Callable[[measure.SweepRow], float] = (
        (lambda row: row.busbw_gb_s)
        if run.job.backend == "nccl"
        else (lambda row: row.best_gb_s)  # what else a machine does only slows it down
    )
    rows = [row for row in measure.rows(run, first) if row.task == task.number and row.in_place]
    return {row.group: rate(row) for row in rows}


def _exchange_task(job: GateJob, number: int, groups: Ranks) -> Task:
    return Task(number, "pairs", job.planes[0].name, groups, "exchange")


def _latencies(run: JobRun, task: Task, first: int) -> dict[int, float]:
    """Return the shorter one of both ends' half round trips, microseconds."""
    found: dict[int, float] = {}
    for event in run.events[first:]:
        if event["event"] == "pair" and event["task"] == task.number:
            us = float(event["us"])
            found[event["group"]] = min(us, found.get(event["group"], us))
    return found


def odd_networks(nodes: Mapping[str, NodeRun]) -> Iterator[Finding]:
    """Yield the nodes whose logs name a network that most others do not use.

    NCCL chooses it for each node alone. Together, these and the others wait for each other for
    ever. Nodes without a log are neither counted nor accused; of two halves, nobody is.
    """
    seen = {name: used for name, node in nodes.items() if (used := _networks(node))}
    count = Counter(seen.values())
    usual, many = max(count.items(), key=lambda each: each[1], default=(frozenset(), 0))
    if 2 * many <= len(seen):
        return
    for name, used in seen.items():
        if used != usual:
            what = (
                f"NCCL uses the network {', '.join(sorted(used))} here and "
                f"{', '.join(sorted(usual))} on {quantity(many, 'other node')} (NCCL's log)"
            )
            remedy = (
                f"On {name}, check NCCL_NET, NCCL_NET_PLUGIN and NCCL_IB_DISABLE (environment, "
                "/etc/nccl.conf) and the devices: ibv_devinfo"
            )
            yield Finding("nccl.network", what, remedy, name, level="node")


def _networks(node: NodeRun) -> frozenset[str]:
    return frozenset(each for _, text in log_files(node) for each in _LINE.findall(text))
