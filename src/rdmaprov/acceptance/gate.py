"""The gate: a preflight, an all-reduce over all nodes, its evidence, and what is at fault."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from rdmaprov.acceptance import (
    blame,
    evidence,
    gpu_checks,
    isolate,
    jobs,
    measure,
    over_time,
    paths,
    preflight,
    proof,
    rail_map,
    rail_reach,
    reach,
    shapes,
    wrong_sums,
)
from rdmaprov.acceptance.finding import Finding, no_answer
from rdmaprov.acceptance.jobs import GateSite
from rdmaprov.acceptance.launch import Launcher
from rdmaprov.acceptance.nodes import Document, Nodes, ask_each, program_command
from rdmaprov.acceptance.rank_events import RankEvent
from rdmaprov.acceptance.result import GLOO_NOTE, GateResult
from rdmaprov.bandwidth import sizes
from rdmaprov.errors import UsageError
from rdmaprov.inventory import Node
from rdmaprov.probe.errors import NodeError

PREFLIGHT_S = 120
_COUNTERS_S = 60
_REACH_SLACK_S = 30


@dataclass(frozen=True)
class Options:
    """What a user asks for.

    Args:
        backend: `nccl`, `gloo` or `auto`: nccl where the site has GPUs.
        sizes: bytes of the messages; empty for all that fit.
        pairs: measure every pair of nodes.
        isolate: find what is at fault by group testing if the run does not show it.
        limit_s: seconds that the run may take; None for what its parts may.

    """

    backend: str = "auto"
    sizes: tuple[int, ...] = ()
    pairs: bool = False
    isolate: bool = True
    limit_s: float | None = None


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

    """

    nodes: tuple[Node, ...]
    connection: Nodes
    options: Options
    keep: Callable[[str, str], Path | None]
    history: Path
    on_stage: Callable[[str], None]
    on_event: Callable[[RankEvent], None] = lambda _event: None
    on_start: Callable[[int], None] = lambda _count: None

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
            self._run_stages(result)
        except KeyboardInterrupt:
            result.interrupted = True
        return result

    def _run_stages(self, result: GateResult) -> None:
        before = self._run_preflight(result)
        if result.findings:
            return
        result.facts = before
        rendezvous = self._find_rendezvous(result, before)
        if rendezvous is None:
            return
        site = GateSite(self.nodes, before, result.backend, rendezvous)
        launcher = Launcher(self.connection, self.on_event)
        self._run_job(result, site, launcher)
        self._collect_evidence(result, site, before)
        unnamed = [finding for finding in result.findings if not finding.nodes]
        if unnamed and self.options.isolate and len(self.nodes) > 2:
            found = isolate.run_isolation(site, launcher, self.on_stage)
            result.findings += isolate.findings(found)

    def _run_preflight(self, result: GateResult) -> dict[str, Document]:
        """Return the facts of each node; what is missing there becomes a finding."""
        self.on_stage(f"preflight: {len(self.nodes)} nodes")
        asked = {node.name: node for node in self.nodes}
        began = time.time()
        answers = ask_each(
            self.connection,
            result.nodes,
            lambda name: program_command(
                "reader", preflight.reader_request(asked[name]), PREFLIGHT_S
            ),
            lambda name: shapes.preflight(len(asked[name].rails)),
        )
        known = {name: said for name, said in answers.items() if not isinstance(said, NodeError)}
        result.backend = _choose_backend(self.options.backend, self.nodes, known)
        result.findings += preflight.findings(
            self.nodes, answers, result.backend, (began, time.time())
        )
        return known

    def _find_rendezvous(
        self, result: GateResult, facts: dict[str, Document]
    ) -> reach.Rendezvous | None:
        """Return where ranks join, None if rails do not reach each other."""
        self.on_stage("checking rail reachability")
        asked: dict[str, list[reach.ReachTest]] = {name: [] for name in facts}
        for probe in reach.reach_tests(self.nodes, facts):
            asked[probe.source].append(probe)
        answers = ask_each(
            self.connection,
            result.nodes,
            lambda name: program_command(
                "reader",
                {"verb": "reach", "targets": reach.targets(asked[name]), "limit_s": reach.LIMIT_S},
                reach.LIMIT_S + _REACH_SLACK_S,
            ),
            lambda name: shapes.reach(len(reach.targets(asked[name]))),
        )
        kind = str(self.nodes[0].get("fabric_kind"))
        found, notes = rail_reach.judge(asked, answers, facts, result.backend, kind)
        result.findings += found
        result.notes += notes
        known = {name: said for name, said in answers.items() if not isinstance(said, NodeError)}
        if result.findings or len(known) < len(answers):
            result.findings += _no_answers(answers)
            return None
        rendezvous = reach.find_rendezvous(self.nodes, facts, asked, known)
        if rendezvous is None:
            what = f"rendezvous: no address of {self.nodes[0].name} is reachable from all nodes"
            result.findings.append(
                Finding(what, "Give each rail an address in fabric_rails", proven=False)
            )
        return rendezvous

    def _run_job(self, result: GateResult, site: GateSite, launcher: Launcher) -> None:
        wanted = self.options.sizes or jobs.default_sizes(
            site.backend, preflight.free_bytes(site.facts)
        )
        job = jobs.fleet_job(site, wanted, self.options.pairs)
        first, last = sizes.format_size(wanted[0]), sizes.format_size(wanted[-1])
        limit = self.options.limit_s or job.limit_s()
        self.on_stage(
            f"all-reduce of {job.world} ranks over {job.backend}, {first} to {last}, "
            f"{', '.join(plane.name for plane in job.planes)}; time limit {limit:.0f} s"
        )
        self.on_start(sum(len(task.sizes) for task in job.tasks))
        (result.ran,) = launcher.run([job], self.options.limit_s)

    def _collect_evidence(
        self, result: GateResult, site: GateSite, before: dict[str, Document]
    ) -> None:
        assert result.ran is not None  # noqa: S101 - it has just run
        ran = result.ran
        result.findings += blame.findings(ran, rail_map.site_map(self.nodes, before))
        result.findings += wrong_sums.findings(ran)
        result.findings += paths.lossy_paths(ran)
        result.findings += paths.stray_traffic(ran)
        result.findings += paths.slow_rails(ran)
        result.notes += _straggler_notes(result)
        result.findings += _leftover_processes(result)
        result.findings += _skipped_sizes(result)
        result.findings += proof.findings(ran) if ran.good else ()
        after = self._read_counters(result)
        due = sum(event["due_bytes"] for event in ran.events_of("moved")[:1]) if ran.good else 0
        is_nccl = site.backend == "nccl"
        own = {name: node.left or () for name, node in ran.nodes.items()}
        result.rails, found = evidence.judge_counters(
            site, before, after, due if is_nccl else 0, own
        )
        result.findings += found
        over_time.judge_samples(result, site, self.keep)
        if is_nccl:
            result.findings += evidence.judge_transports(site, evidence.save_logs(ran, self.keep))
            result.judgement, slow = evidence.judge_floor(site, ran)
            result.findings += slow
            result.notes += result.judgement.notes if result.judgement else ()
            if ran.good:
                when = datetime.now(UTC).isoformat(timespec="seconds")
                result.notes += evidence.compare_with_history(site, ran, self.history, when)
        else:
            result.notes.append(GLOO_NOTE)
        result.findings = evidence.excuse(result.findings, gpu_checks.disturbed(after, own))
        for name, node in ran.nodes.items():
            if node.errors:
                self.keep(f"{name}.err", node.errors)

    def _read_counters(self, result: GateResult) -> dict[str, Document]:
        asked = {node.name: node for node in self.nodes}
        ran = result.ran
        there = tuple(n for n in result.nodes if ran is None or not ran.nodes[n].lost)
        answers = ask_each(
            self.connection,
            there,
            lambda name: program_command(
                "reader", preflight.reader_request(asked[name], "counters"), _COUNTERS_S
            ),
            lambda name: shapes.counters(len(asked[name].rails)),
        )
        return {name: said for name, said in answers.items() if not isinstance(said, NodeError)}


def _no_answers(answers: dict[str, Document | NodeError]) -> list[Finding]:
    """Return the nodes that gave no answer."""
    return [no_answer(said, name) for name, said in answers.items() if isinstance(said, NodeError)]


def _choose_backend(wanted: str, nodes: Iterable[Node], known: dict[str, Document]) -> str:
    """Return the backend: nccl where the site says that there are GPUs, or all nodes have some."""
    if wanted != "auto":
        return wanted
    if any(int(node.get("fabric_gpu_count") or 0) for node in nodes):
        return "nccl"
    return "nccl" if known and all(facts["gpus"]["gpus"] for facts in known.values()) else "gloo"


def _straggler_notes(result: GateResult) -> Iterable[str]:
    """Yield notes on stragglers: no fault by itself."""
    assert result.ran is not None  # noqa: S101 - asked after the run
    for plane in result.ran.job.planes:
        for rank, us in measure.stragglers(result.ran, plane.name).items():
            node = result.ran.job.node_of(rank)
            yield (
                f"{plane.name}: rank {rank} on {node} is a straggler, {us / 1000:.1f} ms behind "
                f"the others in small all-reduces. On {node}, check the CPU load and governor"
            )


def _leftover_processes(result: GateResult) -> Iterable[Finding]:
    """Yield nodes on which processes of the run may be left."""
    assert result.ran is not None  # noqa: S101 - asked after the run
    for name, node in result.ran.nodes.items():
        if node.left:
            what = f"processes {', '.join(map(str, node.left))} of the run could not be ended"
            remedy = f"They are stuck in the kernel: drain {name}, read dmesg -T there, reboot it"
            yield Finding(what, remedy, name)
        elif node.left is None and not node.lost:
            what = "processes of the run may be left on it"
            yield Finding(what, f"On {name}, run: pgrep -f rdmaprov-accept", name, proven=False)


def _skipped_sizes(result: GateResult) -> Iterable[Finding]:
    """Yield the sizes that were not measured within a plane's time limit."""
    assert result.ran is not None  # noqa: S101 - asked after the run
    for event in result.ran.events_of("cut"):
        if event["rank"] == 0:
            rail = next(p.rail for p in result.ran.job.planes if p.name == event["plane"])
            size = sizes.format_size(event["bytes"])
            what = f"sizes from {size} down: not measured, larger ones took {event['used_s']:.0f} s"
            remedy = "Run rdmaprov accept with fewer --sizes"
            yield Finding(what, remedy, rail=rail, proven=False)
