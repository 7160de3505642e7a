"""The stage `fleet` to its end: all nodes together, and parts of them if that names nobody."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from rdmaprov.acceptance.ask.nodes import Nodes
from rdmaprov.acceptance.evidence import floor as fleet_floor
from rdmaprov.acceptance.evidence.judge import SHARP_USED
from rdmaprov.acceptance.live.bad_path import find_bad_paths
from rdmaprov.acceptance.live.ranks import LiveRanks
from rdmaprov.acceptance.options import Options
from rdmaprov.acceptance.preflight import readings
from rdmaprov.acceptance.preflight.gate_site import GateSite
from rdmaprov.acceptance.ranks.launch import JobRunner
from rdmaprov.acceptance.result import GateResult
from rdmaprov.acceptance.stage_report import StageReport
from rdmaprov.acceptance.stages import fleet as stages_fleet
from rdmaprov.acceptance.stages import groups as stages_groups
from rdmaprov.acceptance.stages import rails_alone as stages_rails
from rdmaprov.bandwidth.rates import format_size
from rdmaprov.boundary import Document
from rdmaprov.finding.finding import Finding
from rdmaprov.isolation import model
from rdmaprov.words import quantity, some

PLANE = "without SHARP"
# The largest alone is compared; the one below it tells whether it is an outlier. Our choice.
_SIZES = 2
_PORTS_AFTER = 2  # that of the run over the rails comes between
# Each of them slows everybody who waits for the node: where it is proven, parts of the fleet would
# be as slow with the node and as fast without it.
_EXPLAINS = frozenset(("traffic.priority", "traffic.paused", "packets.lost", "packets.discarded"))


def compare(
    result: GateResult,
    site: GateSite,
    runner: JobRunner,
    options: Options,
    on_stage: Callable[[str], None],
) -> None:
    """Run all nodes without SHARP where they ran well with it; note what it gains."""
    ran = result.ran
    if ran is None or not ran.good or not result.used_sharp:
        return
    job = stages_fleet.again_job(replace(site, collnet=False), options, PLANE, _SIZES, _PORTS_AFTER)
    on_stage(stages_fleet.fleet_line(job, options.limit_s or job.limit_s()))
    other = stages_fleet.run_fleet(runner, job, options)
    with_it, without = fleet_floor.fleet_row(ran), fleet_floor.fleet_row(other)
    if not other.good or with_it is None or without is None or with_it.bytes != without.bytes:
        result.notes.append(
            f"{SHARP_USED} not compared with a run without it, which did not end well"
        )
        return
    gain = with_it.busbw_gb_s / without.busbw_gb_s
    result.notes.append(
        f"{SHARP_USED} {with_it.busbw_gb_s:.1f} GB/s at {format_size(with_it.bytes)}, "
        f"{without.busbw_gb_s:.1f} GB/s without it: {gain:.2f} times"
    )


@dataclass(frozen=True)
class WholeFleet:
    """All nodes that other stages left, as one job.

    Args:
        result: the acceptance's; gets the run and its evidence.
        has_moved_data: whether an earlier stage sent data over the rails.
    """

    site: GateSite
    result: GateResult
    runner: JobRunner
    connection: Nodes
    options: Options
    outputs: stages_rails.Outputs
    has_moved_data: bool

    def run(self, on_start: Callable[[int], None]) -> StageReport:
        """Run all nodes together; test parts of them if that does not show what is at fault."""
        result, site, outputs = self.result, self.site, self.outputs
        job = stages_fleet.fleet_job(site, self.options)
        outputs.on_stage(stages_fleet.fleet_line(job, self.options.limit_s or job.limit_s()))
        on_start(sum(len(task.sizes) for task in job.tasks))
        before = self._counters_before()
        result.ran = ran = stages_fleet.run_fleet(self.runner, job, self.options)
        old = list(result.findings)
        there = [node for node in site.nodes if not ran.nodes[node.name].lost]
        after = readings.read_counters(self.connection, there)
        stages_fleet.collect_evidence(result, site, before, after, outputs.keep)
        stages_fleet.keep_errors(ran, outputs.keep)
        report = StageReport("fleet", findings=result.findings[len(old) :])
        result.findings[:] = old
        report.findings += self._isolate(site, report.findings)
        report.findings += self._run_rails(report.findings)
        compare(result, site, self.runner, self.options, outputs.on_stage)
        report.said = _said(result, job.world)
        return report

    def _run_rails(self, known: Sequence[Finding]) -> list[Finding]:
        """Run all nodes again without NVLink between them, where they share it."""
        if not stages_rails.is_due(self.site, self.result):
            return []
        bare = replace(self.site, mnnvl=False)
        found = stages_rails.prove_rails(
            self.result, bare, self.runner, self.connection, self.options, self.outputs, known
        )
        return found + self._isolate(bare, found)

    def _counters_before(self) -> Mapping[str, Document]:
        """Return the counters that the run of all nodes starts from: other stages move data too."""
        if not self.has_moved_data:
            return self.site.facts
        return {**self.site.facts, **readings.read_counters(self.connection, self.site.nodes)}

    def _isolate(self, site: GateSite, found: Sequence[Finding]) -> list[Finding]:
        """Return what parts of the fleet show, if nothing says what is at fault in all of it."""
        unnamed = [each for each in found if not each.nodes and each.level != "fleet"]
        explained = any(each.level in ("pair", "leaf", "fleet") for each in self.result.findings)
        if not unnamed or explained or not self.options.isolate or len(site.nodes) < 3:
            return []
        proven = [each for each in found if each.proven and each.kind in _EXPLAINS]
        if names := tuple(dict.fromkeys(name for each in proven for name in each.nodes)):
            self.result.notes.append(
                f"no part of the fleet was tested alone: its counters prove why {some(names, 4)} "
                "would slow all; a second fault shows in the next run"
            )
            return []
        self.outputs.on_stage(f"isolation: {quantity(len(site.nodes), 'node')} in pairs and groups")
        tests, say = self.result.tests, self.outputs.on_stage
        with LiveRanks(site, self.runner, "isolation", tests, say).opened() as live:
            slow = [each for each in unnamed if each.kind == "bandwidth.collective"]
            # Where the all-reduce is good, pairs were: one path of thousands is slow, and shows.
            first = model.findings(find_bad_paths(live)) if len(slow) == len(unnamed) else []
            named = first or stages_groups.run_isolation(live, site)
            if not named and 0 < len(slow) < len(unnamed):
                named = model.findings(find_bad_paths(live))
            return named


def _said(result: GateResult, world: int) -> str:
    if result.ran is None or not result.ran.good:
        return f"{world} ranks: the run did not end well"
    said = result.judgement.sentence if result.judgement else f"{world} ranks"
    if result.over_rails and result.over_rails.judgement:
        said += f"; over rails alone: {result.over_rails.judgement.sentence}"
    return said
