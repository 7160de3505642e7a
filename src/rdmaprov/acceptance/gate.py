"""The gate: stages from one node alone to the whole fleet, and what each shows to be at fault."""

import json
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rdmaprov.acceptance import ledger
from rdmaprov.acceptance.ask.nodes import Nodes
from rdmaprov.acceptance.evidence.kernel import judge_kernels
from rdmaprov.acceptance.live.alone import RanksAlone
from rdmaprov.acceptance.live.ranks import LiveRanks
from rdmaprov.acceptance.options import Options
from rdmaprov.acceptance.preflight.gate_site import GateSite
from rdmaprov.acceptance.ranks.events import RankEvent
from rdmaprov.acceptance.ranks.launch import JobRunner, Launcher
from rdmaprov.acceptance.result import GateResult
from rdmaprov.acceptance.stage_report import TABLE, StageReport, leave_out, left_out_line
from rdmaprov.acceptance.stages import gpu as stages_gpu
from rdmaprov.acceptance.stages import groups as stages_groups
from rdmaprov.acceptance.stages import host as stages_host
from rdmaprov.acceptance.stages import preflight
from rdmaprov.acceptance.stages import soak as stages_soak
from rdmaprov.acceptance.stages.host import add_host_paths
from rdmaprov.acceptance.stages.pairs import run_site_pairs
from rdmaprov.acceptance.stages.preflight import run_preflight
from rdmaprov.acceptance.stages.rails_alone import Outputs
from rdmaprov.acceptance.stages.resume import Resumed
from rdmaprov.acceptance.stages.whole_fleet import WholeFleet
from rdmaprov.errors import UsageError
from rdmaprov.inventory import Node
from rdmaprov.runs.last_word import Word
from rdmaprov.runs.results import TESTS
from rdmaprov.words import quantity

__all__ = ["Gate", "Options"]


@dataclass(frozen=True)
class Gate:
    """What an acceptance works with.

    Args:
        keep: writes a file of evidence, by name, and returns its place if that succeeds.
        on_start: is called with the number of `checked` events that a good run has of each rank.
        words: the last word of `validate` about each node; None if it does not matter.
        known: an interrupted run, whose stages are not done again if all nodes are as they were.
        on_report: is called after each stage, with what is known by then.
        is_limited: the site has other nodes, too.
        proofs: what kept runs say of nodes; what they prove is not measured again.
        digests: of each node's variables in the site; of nodes without one, no later run takes.
    """

    nodes: tuple[Node, ...]
    connection: Nodes
    options: Options
    keep: Callable[[str, str], Path | None]
    on_stage: Callable[[str], None]
    on_event: Callable[[RankEvent], None] = lambda _event: None
    on_start: Callable[[int], None] = lambda _count: None
    words: Mapping[str, Word] | None = None
    known: Resumed = field(default_factory=Resumed)
    on_report: Callable[[GateResult], None] = lambda _result: None
    is_limited: bool = False
    proofs: ledger.KeptProofs = field(default_factory=dict)
    digests: Mapping[str, str] = field(default_factory=dict)

    def run(self) -> GateResult:
        """Return the result; an interrupt ends everything on all nodes and is part of it.

        Raises:
            UsageError: there are fewer than two nodes.
        """
        names = tuple(node.name for node in self.nodes)
        if len(names) < 2:
            raise UsageError(
                f"{', '.join(names)}: accept needs two nodes or more",
                "Measurements need two nodes: add a node that is known to be good to --limit",
            )
        result = GateResult(names, digests=self.digests)
        try:
            with ExitStack() as stack:
                runner = Launcher(self.connection, self.on_event)
                StageRun(self, result, runner, stack, list(self.nodes)).run_all()
            found, notes = judge_kernels(self.connection, result.facts)
            result.findings += found
            result.notes += notes
        except KeyboardInterrupt:
            result.interrupted = True
        if result.tests:
            leaves = {node.name: node.leaf for node in self.nodes}
            rows = [{"leaves": leaves}, *result.tests]
            self.keep(TESTS, "".join(f"{json.dumps(row)}\n" for row in rows))
        return result


@dataclass
class StageRun:
    """The stages of one acceptance.

    Attributes:
        site: what is known of them; None until the preflight has passed.
        proofs: of those that are as they were.
    """

    gate: Gate
    result: GateResult
    runner: JobRunner
    stack: ExitStack
    nodes: list[Node]
    site: GateSite | None = None
    live: LiveRanks | None = None
    alone: RanksAlone | None = None
    proofs: ledger.KeptProofs = field(default_factory=dict)
    _known_stages: Mapping[str, StageReport] = field(default_factory=dict)
    _live_stack: ExitStack = field(default_factory=ExitStack)
    _ranks: str = ""  # which of them are there

    def run_all(self) -> None:
        """Run the stages that were asked for, in order, each without the nodes that failed."""
        self.stack.enter_context(self._live_stack)
        options = self.gate.options
        for name in options.wanted:
            known = self._known_stages.get(name)
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
        if TABLE[name].ranks != self._ranks:
            self._live_stack.close()
            self.live = self.alone = None  # their events are many
            self._ranks = TABLE[name].ranks
        began = time.monotonic()
        run: Callable[[], StageReport] = getattr(self, f"_run_{name}")
        report = run()
        report.seconds = time.monotonic() - began
        self.gate.on_stage(report.text)
        return report

    def _take(self, report: StageReport) -> None:
        """Take in what a stage found, and leave out the nodes that it found bad."""
        result = self.result
        result.stages.append(report)
        result.findings += report.findings
        result.notes += report.notes
        stage = TABLE[report.name]
        if report.detail is not None:
            result.details[stage.detail] = report.detail
        if stage.drops:
            names = tuple(node.name for node in self.nodes)
            report.left_out = report.left_out or leave_out(report.findings, names)
        if report.left_out:
            self.gate.on_stage(left_out_line(report.name, report.left_out))
            self._drop(report.left_out)
        self.gate.on_report(result)

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

    def _run_state(self) -> StageReport:
        names = [node.name for node in self.nodes]
        return preflight.run_state(self.gate.words, names, self.gate.is_limited)

    def _run_preflight(self) -> StageReport:
        """Ask each node for its facts, and find where ranks join."""
        gate = self.gate
        gate.on_stage(f"preflight: {quantity(len(self.nodes), 'node')}")
        report, self.site = run_preflight(self.result, gate.connection, self.nodes, gate.options)
        found = preflight.other_boots(gate.words, self.result.facts, gate.is_limited)
        report.findings += found
        report.left_out |= {name: each.what for each in found for name in each.nodes}
        now = self.result.nodes_as_data()
        self.proofs, notes = ledger.still_true(gate.proofs, now, self.result.backend)
        report.notes += notes + self._resume(now)
        return report

    def _resume(self, now: Mapping[str, Mapping[str, Any]]) -> list[str]:
        """Take the stages of the run that is resumed; none if a node is another one, with why."""
        kept = self.gate.known
        stages = {name: each for name, each in kept.stages.items() if not TABLE[name].is_always}
        if stages and (notes := ledger.changed_since(kept.run, kept.nodes, now)):
            return notes
        self._known_stages, self.result.resumed = stages, bool(stages)
        return []

    def _run_gpu(self) -> StageReport:
        return self._run_alone("gpu", lambda site: stages_gpu.run_gpu(site, self._open_alone()))

    def _run_host(self) -> StageReport:
        def measure(site: GateSite) -> StageReport:
            report = stages_host.run_host(site, self._open_alone())
            add_host_paths(report, self.gate.connection, site, self.gate.keep)
            return report

        return self._run_alone("host", measure)

    def _run_alone(self, name: str, measure: Callable[[GateSite], StageReport]) -> StageReport:
        """Run a stage of single nodes on those that no kept run proves."""
        site = self._known()
        proven = ledger.proven(self.proofs, name, site.nodes)
        left = site.without(proven)
        report = measure(left) if left.nodes else StageReport(name)
        ledger.take(report, proven)
        return report

    def _run_pairs(self) -> StageReport:
        gate = self.gate
        return self._run_between(
            "pairs",
            lambda site: run_site_pairs(gate.connection, site, gate.options, self._open_live),
        )

    def _run_groups(self) -> StageReport:
        return self._run_between(
            "groups", lambda site: stages_groups.run_groups(self._open_live(site), site)
        )

    def _run_between(self, name: str, measure: Callable[[GateSite], StageReport]) -> StageReport:
        """Run a stage of several nodes between those that one kept run proved together."""
        site = self._known()
        every = self.gate.options.pairs  # asked for all of them, now
        proven = {} if every else ledger.proven_leaves(self.proofs, name, site.nodes)
        if len({each.runs[name] for each in proven.values()}) == 1:
            report, what = StageReport(name), ""
        else:
            report, what = measure(replace(site, is_joined=bool(proven))), "under each leaf, "
        ledger.take(report, proven, what)
        return report

    def _open_alone(self) -> RanksAlone:
        """Return the ranks of each node that wait for the tasks of `gpu` and `host`."""
        if self.alone is None:
            self.alone = RanksAlone(self.runner, self.gate.options.limit_s)
            self._live_stack.enter_context(self.alone.opened())
        return self.alone

    def _open_live(self, site: GateSite) -> LiveRanks:
        """Return the ranks that wait for tasks of pairs and groups."""
        if self.live is None:
            say = self.gate.on_stage
            self.live = LiveRanks(site, self.runner, "pairs", self.result.tests, say)
            self._live_stack.enter_context(self.live.opened())
        return self.live

    def _run_fleet(self) -> StageReport:
        gate = self.gate
        ran = {report.name for report in self.result.stages}
        outputs = Outputs(gate.on_stage, gate.keep)
        fleet = WholeFleet(
            self._known(),
            self.result,
            self.runner,
            gate.connection,
            gate.options,
            outputs,
            has_moved_data=any(TABLE[name].ranks == "live" for name in ran),
        )
        return fleet.run(gate.on_start)

    def _run_soak(self) -> StageReport:
        seconds = self.gate.options.soak_s
        return stages_soak.run_soak(self._known(), self.runner, seconds)

    def _known(self) -> GateSite:
        assert self.site is not None  # noqa: S101 - no stage but the first two runs without it
        return self.site
