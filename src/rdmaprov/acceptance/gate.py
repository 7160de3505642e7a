"""The gate: stages from one node alone to the whole fleet, and what each shows to be at fault."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from rdmaprov.acceptance import (
    readings,
    stages_fleet,
    stages_groups,
    stages_host,
    stages_rails,
    stages_scaling,
    stages_sharp,
    stages_soak,
    stages_training,
)
from rdmaprov.acceptance.finding import Finding
from rdmaprov.acceptance.jobs import GateSite
from rdmaprov.acceptance.launch import JobRunner, Launcher
from rdmaprov.acceptance.live import LiveRanks
from rdmaprov.acceptance.nodes import Document, Nodes
from rdmaprov.acceptance.options import Options
from rdmaprov.acceptance.path_data import paths_as_data
from rdmaprov.acceptance.rank_events import RankEvent
from rdmaprov.acceptance.result import GateResult
from rdmaprov.acceptance.stages import ALWAYS, StageReport, leave_out, left_out_line
from rdmaprov.acceptance.stages_host_paths import add_host_paths
from rdmaprov.acceptance.stages_path_pairs import join_pairs, measure_site_paths
from rdmaprov.errors import UsageError
from rdmaprov.inventory import Node
from rdmaprov.words import quantity

__all__ = ["Gate", "Options"]
# Each time, nodes that do not answer the first one are left out; then another may be the first.
_REACH_TRIES = 3
_LIVE = ("pairs", "groups")


@dataclass(frozen=True)
class Gate:
    """What an acceptance works with.

    Args:
        nodes: the site's, in order.
        connection: runs commands on them.
        options: what is asked for.
        keep: writes a file of evidence, by name, and returns its place if that succeeds.
        history: the file with what the fleet has reached before.
        on_stage: is called with a line for each stage.
        on_event: is called with each event of each rank.
        on_start: is called with the number of `checked` events that a good run has of each rank.
        state: nodes whose state is known to be wrong.
        known: stages of an interrupted run, which are not done again.
        on_report: is called with all reports as a stage ends.

    """

    nodes: tuple[Node, ...]
    connection: Nodes
    options: Options
    keep: Callable[[str, str], Path | None]
    history: Path
    on_stage: Callable[[str], None]
    on_event: Callable[[RankEvent], None] = lambda _event: None
    on_start: Callable[[int], None] = lambda _count: None
    state: Sequence[Finding] = ()
    known: Mapping[str, StageReport] = field(default_factory=dict)
    on_report: Callable[[Sequence[StageReport]], None] = lambda _reports: None

    def run(self) -> GateResult:
        """Return the result; an interrupt ends everything on all nodes and is part of it.

        Raises:
            UsageError: there are fewer than two nodes.

        """
        names = tuple(node.name for node in self.nodes)
        if len(names) < 2:
            raise UsageError(
                f"{', '.join(names)}: accept needs two nodes or more",
                "Select two nodes or more with --limit",
            )
        result = GateResult(names)
        try:
            with ExitStack() as stack:
                runner = Launcher(self.connection, self.on_event)
                StageRun(self, result, runner, stack, list(self.nodes)).run_all()
        except KeyboardInterrupt:
            result.interrupted = True
        return result


@dataclass
class StageRun:
    """The stages of one acceptance.

    Attributes:
        nodes: those that no stage has left out.
        site: what is known of them; None until the preflight has passed.

    """

    gate: Gate
    result: GateResult
    runner: JobRunner
    stack: ExitStack
    nodes: list[Node]
    site: GateSite | None = None
    live: LiveRanks | None = None
    _live_stack: ExitStack = field(default_factory=ExitStack)

    def run_all(self) -> None:
        """Run the stages that were asked for, in order, each without the nodes that failed."""
        self.stack.enter_context(self._live_stack)
        options = self.gate.options
        for name in options.wanted:
            known = None if name in ALWAYS else self.gate.known.get(name)
            if known is not None:
                self.gate.on_stage(f"{known.text} (in the run that is resumed)")
            report = known or self._run_one(name)
            self._take(report)
            if not self._goes_on(report):
                return
        if "fleet" not in options.wanted:
            self.result.notes.append("not accepted: the stage fleet was not selected (--stages)")

    def _run_one(self, name: str) -> StageReport:
        """Run a stage; report it as one line."""
        if name not in _LIVE:
            self._live_stack.close()
            self.live = None  # its events are many
        began = time.monotonic()
        parts: dict[str, Callable[[], StageReport]] = {
            "state": self._check_state,
            "preflight": self._check_nodes,
            "host": self._run_host,
            "pairs": self._run_pairs,
            "groups": self._run_groups,
            "scaling": self._run_scaling,
            "fleet": self._run_fleet,
            "training": self._run_training,
            "soak": self._run_soak,
        }
        report = parts[name]()
        report.seconds = time.monotonic() - began
        self.gate.on_stage(report.text)
        return report

    def _take(self, report: StageReport) -> None:
        """Take in what a stage found, and leave out the nodes that it found bad."""
        result = self.result
        result.stages.append(report)
        result.findings += report.findings
        result.notes += report.notes
        result.paths = report.paths or result.paths
        result.scaling = report.scaling or result.scaling
        result.training = report.training or result.training
        if report.name not in ("scaling", "fleet", "training", "soak"):
            names = tuple(node.name for node in self.nodes)
            report.left_out = report.left_out or leave_out(report.findings, names)
        if report.left_out:
            self.gate.on_stage(left_out_line(report.name, report.left_out))
            self._drop(report.left_out)
        self.gate.on_report(result.stages)

    def _drop(self, names: Mapping[str, str]) -> None:
        self.nodes = [node for node in self.nodes if node.name not in names]
        if self.site is not None:
            self.site = self.site.without(names)

    def _goes_on(self, report: StageReport) -> bool:
        """Return whether the next stage can begin; say why if it cannot."""
        if report.findings and not self.gate.options.keep_going:
            self.gate.on_stage(f"stopped after {report.name} (--keep-going never)")
            return False
        if len(self.nodes) < 2:
            self.gate.on_stage(f"stopped after {report.name}: fewer than two nodes are left")
            return False
        return report.name == "state" or self.site is not None

    def _check_state(self) -> StageReport:
        found = list(self.gate.state)
        said = f"{quantity(len(self.nodes), 'node')}: the last validate of {len(found)} failed"
        return StageReport("state", said if found else "no node failed its last validate",
                           findings=found)  # fmt: skip

    def _check_nodes(self) -> StageReport:
        """Ask each node for its facts, and find where ranks join."""
        gate, result = self.gate, self.result
        gate.on_stage(f"preflight: {quantity(len(self.nodes), 'node')}")
        facts, result.backend, found = readings.read_facts(
            gate.connection, self.nodes, gate.options.backend
        )
        result.facts = facts
        report = StageReport("preflight", findings=found)
        report.left_out = leave_out(found, tuple(node.name for node in self.nodes))
        for _ in range(_REACH_TRIES):
            there = [n for n in self.nodes if n.name not in report.left_out and n.name in facts]
            if len(there) < 2 or (found and not gate.options.keep_going):
                break
            own = {node.name: facts[node.name] for node in there}
            rendezvous, found, notes = readings.find_rendezvous(
                gate.connection, there, own, result.backend
            )
            report.notes = notes
            if rendezvous is not None:
                self.site = GateSite(tuple(there), own, result.backend, rendezvous)
                break
            report.findings += found
            lost = leave_out(found, tuple(own))
            report.left_out |= lost
            if not lost:
                break
        count = len(self.nodes) - len(report.left_out)
        report.said = f"{quantity(len(self.nodes), 'node')}: {count} ready for {result.backend}"
        return report

    def _run_host(self) -> StageReport:
        gate, site = self.gate, self._known()
        report = stages_host.run_host(site, self.runner, gate.options.limit_s)
        add_host_paths(report, gate.connection, site, gate.keep)
        return report

    def _run_pairs(self) -> StageReport:
        """Test paths over RDMA, and then collectives of two nodes without those at fault."""
        gate, site = self.gate, self._known()
        paths = measure_site_paths(gate.connection, site, gate.options)
        if paths is None:
            return self._run_ring_pairs()
        names = [node.name for node in site.nodes]
        data = paths_as_data(names, paths.bandwidth, paths.latency, paths.expected)
        paths.stage.paths = data
        lost = leave_out(paths.stage.findings, tuple(names))
        if len(names) - len(lost) < 2 or (paths.stage.findings and not gate.options.keep_going):
            return paths.stage
        self._drop(lost)
        report = join_pairs(paths.stage, self._run_ring_pairs())
        report.left_out = {**lost, **leave_out(report.findings, tuple(names))}
        return report

    def _run_ring_pairs(self) -> StageReport:
        site, options = self._known(), self.gate.options
        if len(site.nodes) == 2 and site.backend == "gloo" and "fleet" in options.wanted:
            # NCCL may take a tree on two nodes, which hides a slow rail; gloo has a ring alone.
            return StageReport("pairs", "the only pair is the stage fleet", is_skipped=True)
        return stages_groups.run_pairs(self._live(), site, options.pairs)

    def _run_groups(self) -> StageReport:
        return stages_groups.run_groups(self._live(), self._known())

    def _run_scaling(self) -> StageReport:
        site = self._known()
        self.gate.on_stage(stages_scaling.scaling_line(site))
        return stages_scaling.run_scaling(site, self.runner, self.result.intra_node_gb_s)

    def _live(self) -> LiveRanks:
        """Return the ranks that wait for tasks of pairs and groups."""
        if self.live is None:
            self.live = LiveRanks(self._known(), self.runner, "pairs")
            self._live_stack.enter_context(self.live.opened())
        return self.live

    def _run_fleet(self) -> StageReport:
        """Run all nodes together; test parts of them if that does not show what is at fault."""
        gate, result, site = self.gate, self.result, self._known()
        job = stages_fleet.fleet_job(site, gate.options)
        gate.on_stage(stages_fleet.fleet_line(job, gate.options.limit_s or job.limit_s()))
        gate.on_start(sum(len(task.sizes) for task in job.tasks))
        counted = self._counters_before(site)
        result.ran = stages_fleet.run_fleet(self.runner, job, gate.options)
        ran, old = result.ran, list(result.findings)
        there = [node for node in site.nodes if not ran.nodes[node.name].lost]
        after = readings.read_counters(gate.connection, there)
        stages_fleet.collect_evidence(result, site, counted, after, gate.keep, gate.history)
        stages_fleet.keep_errors(ran, gate.keep)
        report = StageReport("fleet", findings=result.findings[len(old) :])
        result.findings[:] = old
        report.findings += self._isolate(site, report.findings)
        report.findings += self._run_rails(site, report.findings)
        stages_sharp.compare(result, site, self.runner, gate.options, gate.on_stage)
        said = result.judgement.sentence if result.judgement else f"{job.world} ranks"
        if result.over_rails and result.over_rails.judgement:
            said += f"; over rails alone: {result.over_rails.judgement.sentence}"
        report.said = said if ran.good else f"{job.world} ranks: the run did not end well"
        return report

    def _run_rails(self, site: GateSite, known: Sequence[Finding]) -> list[Finding]:
        """Run all nodes again without NVLink between them, where they share it."""
        if not stages_rails.is_due(site, self.result):
            return []
        gate, bare = self.gate, replace(site, mnnvl=False)
        outputs = stages_rails.Outputs(gate.on_stage, gate.keep, gate.history)
        found = stages_rails.prove_rails(
            self.result, bare, self.runner, gate.connection, gate.options, outputs, known
        )
        return found + self._isolate(bare, found)

    def _counters_before(self, site: GateSite) -> Mapping[str, Document]:
        """Return the counters that the run of all nodes starts from: other stages move data too."""
        if not {report.name for report in self.result.stages} & set(_LIVE):
            return site.facts
        return {**site.facts, **readings.read_counters(self.gate.connection, site.nodes)}

    def _isolate(self, site: GateSite, found: Sequence[Finding]) -> list[Finding]:
        """Return what parts of the fleet show, if nothing says what is at fault in all of it."""
        unnamed = [each for each in found if not each.nodes and each.level != "fleet"]
        explained = any(each.level in ("pair", "leaf", "fleet") for each in self.result.findings)
        if not unnamed or explained or not self.gate.options.isolate or len(site.nodes) < 3:
            return []
        self.gate.on_stage(f"isolation: {quantity(len(site.nodes), 'node')} in pairs and groups")
        with LiveRanks(site, self.runner, "isolation").opened() as live:
            return stages_groups.run_isolation(live, site)

    def _run_training(self) -> StageReport:
        gate, site = self.gate, self._known()
        gate.on_stage(f"training: steps on 1 to {quantity(len(site.nodes), 'node')}, DDP and FSDP2")
        return stages_training.run_training(site, self.runner, gate.options)

    def _run_soak(self) -> StageReport:
        seconds = self.gate.options.soak_s
        return stages_soak.run_soak(self._known(), self.runner, seconds)

    def _known(self) -> GateSite:
        assert self.site is not None  # noqa: S101 - no stage but the first two runs without it
        return self.site
