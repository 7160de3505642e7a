"""What `rdmaprov apply` does; apart from its options, so that help stays fast."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, Unpack

import click

from rdmaprov.apply import limits, summary
from rdmaprov.apply.events import Survey
from rdmaprov.apply.limits import Share
from rdmaprov.apply.results import NodeResult, ProbeResult, Results
from rdmaprov.apply.run import ApplyRequest, Run
from rdmaprov.cli import node_proofs, session
from rdmaprov.cli.apply_agreed import Agreement, agrees, is_interactive
from rdmaprov.cli.options import PasswordOptions
from rdmaprov.cli.site_lock import node_lock_variables, site_lock
from rdmaprov.drift.fleet import probe_fleet
from rdmaprov.drift.kept_plan import read_plan
from rdmaprov.errors import UsageError
from rdmaprov.exit_codes import ExitCode
from rdmaprov.replace.batches import Batches
from rdmaprov.replace.journal import Journal, identity_of, journal_directory
from rdmaprov.replace.roll import Roll, is_left_alone
from rdmaprov.replace.steps import APPLY, DRAIN, VALIDATE, Replacement, Step, Stopped
from rdmaprov.runs.estimate import expected
from rdmaprov.runs.groups import fold_names
from rdmaprov.scheduler.choice import choose_scheduler, wait_s
from rdmaprov.scheduler.model import NodeStatus, Scheduler
from rdmaprov.scheduler.no_scheduler import NoScheduler
from rdmaprov.scheduler.service import StepOutcome
from rdmaprov.scheduler.units import units
from rdmaprov.terminal import Line
from rdmaprov.words import quantity


def converge(
    site: Path,
    limit: str | None,
    roles: str,
    serial: str | None,
    max_failures: str | None,
    reboot: str | None,
    drifted: bool,
    force_busy: bool,
    yes: bool,
    wait_s: float,
    json_file: IO[str] | None,
    **passwords: Unpack[PasswordOptions],
) -> int:
    """Bring the nodes of a site to its state, or do what a kept plan says; return the exit code."""
    kept = read_plan(site)
    if kept is not None:
        others: dict[str, object] = {"--limit": limit, "--roles": roles, "--reboot": reboot}
        others["--drifted"] = drifted
        _require_alone(others, "a plan's file", "the plan says what is done")
        site = kept.site
    named = session.known_roles(roles) if kept is None else kept.roles
    batch = limits.parse_share("--serial", serial, 1) if serial is not None else None
    most = (
        limits.parse_share("--max-failures", max_failures, 0) if max_failures is not None else None
    )
    with site_lock(site, wait_s), session.prepare(site, limit, json_file, passwords) as ready:
        if kept is not None:
            kept.require_site(ready.nodes)
            ready = ready.only(kept.nodes)
        count = len(ready.nodes)
        batches = -(-count // batch.of(count)) if batch is not None else 1
        session.say_expected(
            ready.screen, expected(site, "apply", count, batches=batches, roles=named)
        )
        asks = kept is None and not yes and is_interactive(ready.screen)
        agreed = Agreement(ready, reboot, kept, asks)
        scheduler = choose_scheduler(ready.fleet.nodes)
        request = ApplyRequest(
            "apply", site, ready.nodes, limit, named, {}, ready.arguments, ready.waivers
        )
        request = replace(request, is_part=kept is not None)
        with session.start_run(request, ready) as run:
            rolls = batch is not None and not isinstance(scheduler, NoScheduler)
            if drifted and not rolls and not _narrow(run, ready, named):
                stopped = run.results_so_far(interrupted=True)
                lines = summary.apply_lines(stopped)
                return session.finish(run, stopped, lines, ready.screen, json_file)
            ansible = (None, None) if rolls else (batch, most)
            run.add_variables(_variables(*ansible, reboot, len(run.nodes)))
            if force_busy:
                run.add_variables({"apply_force_busy": True})
            run.add_variables(node_lock_variables(run.path, wait_s))
            settled = None if rolls else agreed.settle(run)
            if batch is not None and rolls:
                results = Rolling(request, agreed, scheduler, run, json_file).roll(batch, most)
            else:
                results = settled or run.run_playbook("apply")
            done = agreed.lines(settled) if settled else summary.apply_lines(results)
            return session.finish(run, results, done, ready.screen, json_file)


def _require_alone(others: Mapping[str, object], what: str, why: str) -> None:
    """Raise a UsageError if options are given that something else leaves no room for."""
    for option, value in others.items():
        if value:
            raise UsageError(f"{option} and {what} exclude each other: {why}", "Pass one of them")


def _narrow(run: Run, ready: session.Prepared, roles: tuple[str, ...]) -> bool:
    """Probe the nodes and drop those that need nothing; return False for an interrupt."""
    count = len(ready.nodes)
    ready.screen.remark(Line(f"probing {quantity(count, 'node')}"))
    try:
        with ready.screen.meter("probing", count) as moving:
            become = ready.given.become
            found = probe_fleet(ready.fleet, roles, become, moving.advance, run.note_relay)
    except KeyboardInterrupt:
        return False
    run.leave_out_proven(found)
    for line in summary.probe_lines(found):
        ready.screen.show(line)
    return True


def _variables(
    serial: limits.Share | None, most: limits.Share | None, reboot: str | None, nodes: int
) -> dict[str, object]:
    """Return the variables that the options set for the playbook."""
    variables: dict[str, object] = {}
    if serial is not None:
        variables["apply_serial"] = str(serial)
    if most is not None:
        variables["apply_max_failures"] = limits.max_fail_percentage(most, serial, nodes)
    if reboot is not None:
        variables["apply_reboot"] = reboot
    return variables


@dataclass
class Rolling:
    """An apply that rolls over a fleet."""

    request: ApplyRequest
    agreed: Agreement  # the site with the nodes to apply on, and how far to go
    scheduler: Scheduler
    run: Run  # has the playbook's variables, and takes all that batches write
    json_file: IO[str] | None

    def roll(self, serial: Share, most: Share | None) -> Results:
        """Roll over the nodes that need it; return the results."""
        self.ready = self.agreed.ready
        found = self._needed(self.scheduler.status(self.ready.nodes))
        if found and self.agreed.asks and not self._agrees(found):
            return self.results
        queue = units(self.ready.only(found).fleet.nodes)
        places = serial.of(len(queue)) if queue else 1
        limit = most.of(len(found)) if most is not None and most.number else 0
        show = partial(click.echo, nl=False, err=session.is_stdout(self.json_file))
        batches = Batches(self._prove, self.results.nodes.update, show)
        roll = Roll(queue, places, limit, self._member, batches)
        try:
            roll.run()
        except KeyboardInterrupt:
            self.results.interrupted = True
        for name, stopped in roll.ended.items():
            self.results.nodes[name] = _with_end(self.results.nodes[name], stopped)
        if done := [name for name, each in roll.ended.items() if each.code is ExitCode.OK]:
            self._show(f"in service: {fold_names(done)}", "green")
        return self.results

    def _needed(self, status: Mapping[str, NodeStatus]) -> dict[str, ProbeResult]:
        """Return the nodes to work on: those that differ, and those that an earlier run left."""
        names = {name for name, each in status.items() if not is_left_alone(each, "apply")}
        self._show(f"probing {quantity(len(names), 'node')}")
        fleet, become = self.ready.only(names).fleet, self.ready.given.become
        tell, roles = self.run.note_relay, self.request.roles
        found = probe_fleet(fleet, roles, become, tell=tell) if names else {}
        self.results = Results(self.ready.nodes, applies=True, probed=found)
        needed = {}
        for name, node in self.results.nodes.items():
            one = found.get(name, ProbeResult(f"left alone: {status[name].text}"))
            if name not in found:
                self._show(f"{name}: {one.why}", "yellow")
            if name not in found or one.unreachable:
                node = replace(node, unreachable=one.unreachable, problem=one.why)
            elif one.survey is not None and one.survey.problems:
                node = replace(node, before=one.survey, failed="survey", problem=one.why)
            elif one.why or status[name].is_ours:
                needed[name] = one
            self.results.nodes[name] = node
        return needed

    def _agrees(self, found: Mapping[str, ProbeResult]) -> bool:
        """Show what the batches will do, and ask once."""
        results = Results(found, applies=False)
        for name, one in found.items():
            results.nodes[name] = replace(results.nodes[name], before=one.survey)
        for line in (*summary.plan_lines(results, diffs=False), *summary.probe_lines(found)):
            self.ready.screen.show(line)
        nodes = list(results.nodes.values())
        self.results.nodes |= results.nodes  # until they are worked on
        return agrees(nodes, self.agreed.rebooted(nodes))

    def _member(self, names: Sequence[str]) -> Replacement:
        site, only = self.request.site, self.ready.only
        directory = journal_directory(site, verb="apply")
        validate = Step(VALIDATE, lambda part: node_proofs.validate_nodes(site, only(set(part))))
        return Replacement(
            tuple(names),
            (Step("site", self._bind),),
            (Step(APPLY, self._apply, is_alone=True), validate),
            self.scheduler,
            Journal(directory, (APPLY, VALIDATE)),
            wait_s(self.ready.fleet.nodes),
            tell=self._show,
            verb="apply",
        )

    def _bind(self, names: Sequence[str]) -> StepOutcome:
        for node in self.ready.only(set(names)).fleet.nodes:
            identity = identity_of(node.values, ",".join(self.request.roles))
            self._member(()).journal.bind(node.name, identity)
        return StepOutcome()

    def _prove(self, names: Sequence[str]) -> tuple[dict[str, Stopped], dict[str, NodeResult]]:
        """Work on a batch, in a process of its own."""
        ended = self._member(names).run_each()
        return ended, {name: self.results.nodes[name] for name in names}

    def _apply(self, names: Sequence[str]) -> StepOutcome:
        run = self.run.part(names)
        agreed = replace(self.agreed, ready=self.ready.only(set(names)), asks=False)
        results = agreed.settle(run) or run.run_playbook("apply")
        self.results.nodes.update(results.nodes)
        for line in summary.apply_lines(results):
            self.ready.screen.show(line)
        outcome = node_proofs.outcome_of_run(results.exit_code(), f"apply, {self.run.path}")
        own = {}
        for name, node in results.nodes.items():
            code, text = results.exit_code(name), node.problem or outcome.text
            own[name] = StepOutcome(code, text, untouched=not node.roles)
        return replace(outcome, nodes=own)

    def _show(self, text: str, style: str = "") -> None:
        self.ready.screen.remark(Line(text, style))


def _with_end(node: NodeResult, stopped: Stopped) -> NodeResult:
    """Return the result of a node with how the roll ended for it."""
    if stopped.code is ExitCode.OK:  # apply may have passed in an earlier run
        return node if node.before is not None else replace(node, before=Survey())
    text = f"{stopped.step}: {stopped.text}"
    node = replace(node, problem=node.problem or text)
    if stopped.code is ExitCode.FAILED:
        return replace(node, failed=node.failed or stopped.step)
    is_pending = stopped.code is ExitCode.PENDING and node.reboot
    return node if stopped.step == DRAIN or is_pending else replace(node, left=text)
