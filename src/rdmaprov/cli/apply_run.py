"""What `rdmaprov apply` does; apart from its options, so that help stays fast."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Unpack

from rdmaprov.apply import limits, summary
from rdmaprov.apply.limits import Share
from rdmaprov.apply.results import ProbeResult, Results
from rdmaprov.apply.run import ApplyRequest, Run
from rdmaprov.cli import node_proofs, session
from rdmaprov.cli.apply_agreed import Agreement, agrees, is_interactive
from rdmaprov.cli.options import PasswordOptions
from rdmaprov.cli.site_lock import node_lock_variables, site_lock
from rdmaprov.drift.fleet import probe_fleet
from rdmaprov.drift.kept_plan import read_plan
from rdmaprov.errors import UsageError
from rdmaprov.exit_codes import ExitCode
from rdmaprov.replace.journal import Journal, identity_of, journal_directory
from rdmaprov.replace.steps import APPLY, VALIDATE, Replacement, Step, Stopped
from rdmaprov.runs.groups import fold_names
from rdmaprov.scheduler.batches import batches
from rdmaprov.scheduler.choice import choose_scheduler, wait_s
from rdmaprov.scheduler.model import MARK, NodeStatus, Scheduler
from rdmaprov.scheduler.no_scheduler import NoScheduler
from rdmaprov.scheduler.service import StepOutcome, is_foreign
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
        asks = kept is None and not yes and is_interactive(ready.screen)
        agreed = Agreement(ready, reboot, kept, asks, json_file)
        scheduler = choose_scheduler(ready.fleet.nodes)
        if batch is not None and not isinstance(scheduler, NoScheduler):
            others = {"--json": json_file, "--max-failures": max_failures}
            what = "--serial", "where scheduler_kind names a scheduler, each batch has its own run"
            _require_alone(others, *what)
            # with pytest, which takes a while

            variables = _variables(None, None, reboot, 0)
            variables |= {"apply_force_busy": True} if force_busy else {}
            return Rolling(site, agreed, scheduler, named, variables, wait_s).run(batch)
        request = ApplyRequest(
            "apply", site, ready.nodes, limit, named, {}, ready.arguments, ready.waivers
        )
        request = replace(request, is_part=kept is not None)
        with session.start_run(request, ready) as run:
            if drifted and not _narrow(run, ready, named):
                stopped = run.results_so_far(interrupted=True)
                lines = summary.apply_lines(stopped)
                return session.finish(run, stopped, lines, ready.screen, json_file)
            run.add_variables(_variables(batch, most, reboot, len(run.nodes)))
            if force_busy:
                run.add_variables({"apply_force_busy": True})
            run.add_variables(node_lock_variables(run.path, wait_s))
            if (code := agreed.settle(run)) is not None:
                return code
            results = run.run_playbook("apply")
            lines = summary.apply_lines(results)
            return session.finish(run, results, lines, ready.screen, json_file)


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
            found = probe_fleet(ready.fleet, roles, ready.given.become, moving.advance)
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


PROOFS = (APPLY, VALIDATE)


@dataclass(frozen=True)
class Rolling:
    """An apply that rolls over a fleet.

    Args:
        agreed: the site with the nodes to apply on, and how far to go.
        roles: names of the roles; empty for all.
        variables: of the playbook, such as the policy of reboots.
        lock_wait_s: seconds to wait for another run that holds a node.
    """

    site: Path
    agreed: Agreement
    scheduler: Scheduler
    roles: tuple[str, ...]
    variables: Mapping[str, object]
    lock_wait_s: float

    @property
    def ready(self) -> session.Prepared:
        """Return the site with the nodes to apply on."""
        return self.agreed.ready

    def run(self, serial: Share) -> ExitCode:
        """Roll over the nodes that need it; return the exit code."""
        status = self.scheduler.status(self.ready.nodes)
        others = [name for name, each in status.items() if _is_left_alone(each)]
        for name in others:
            self._show(f"{name}: left alone: {status[name].text}", "yellow")
        found = self._needed(status, others)
        needed = list(found)
        if not needed:
            self._show(f"{quantity(len(self.ready.nodes) - len(others), 'node')}: nothing to do")
        elif self.agreed.asks and not self._agrees(found):
            return ExitCode.PENDING
        nodes = self._only(needed).fleet.nodes
        ended = roll(batches(nodes, serial.of(len(nodes)) if nodes else 1), self._batch)
        done = [name for name in needed if name not in ended.stopped + ended.left]
        if done:
            self._show(f"in service: {fold_names(done)}", "green")
        if ended.stopped:
            why = f"{ended.end.step}: {ended.end.text}"
            self._show(f"stopped: {fold_names(ended.stopped)}: {why}", "red")
            self._show("When that is solved, run the same command again: it does what is left")
        if ended.left:
            self._show(f"not started, in service: {fold_names(ended.left)}")
        return ended.end.code or (ExitCode.UNKNOWN if others else ExitCode.OK)

    def _needed(
        self, status: Mapping[str, NodeStatus], others: Sequence[str]
    ) -> dict[str, ProbeResult]:
        """Return the nodes that differ from the site, and those that an earlier run left."""
        names = [name for name in self.ready.nodes if name not in others]
        ready = self._only(names)
        self._show(f"probing {quantity(len(names), 'node')}")
        found = probe_fleet(ready.fleet, self.roles, ready.given.become) if names else {}
        return {name: found[name] for name in names if found[name].why or status[name].is_ours}

    def _agrees(self, found: Mapping[str, ProbeResult]) -> bool:
        """Show what the batches will do, and ask once."""
        results = Results(found, applies=False)
        for name, one in found.items():
            results.nodes[name] = replace(results.nodes[name], before=one.survey)
        for line in (*summary.plan_lines(results, diffs=False), *summary.probe_lines(found)):
            self.ready.screen.show(line)
        nodes = list(results.nodes.values())
        return agrees(nodes, self.agreed.rebooted(nodes))

    def _batch(self, names: Sequence[str]) -> Stopped:
        """Take a batch through drain, apply, validate and return."""
        self._show(f"batch: {fold_names(names)}")
        directory = journal_directory(self.site, verb="apply")
        journal = Journal(directory, PROOFS)
        return Replacement(
            tuple(names),
            (Step("site", lambda nodes: self._bind(journal, nodes)),),
            (Step(APPLY, self._apply), Step(VALIDATE, self._validate)),
            self.scheduler,
            journal,
            wait_s(self.ready.fleet.nodes),
            tell=self._show,
            verb="apply",
        ).run()

    def _bind(self, journal: Journal, names: Sequence[str]) -> StepOutcome:
        for node in self._only(names).fleet.nodes:
            journal.bind(node.name, identity_of(node.values, ",".join(self.roles)))
        return StepOutcome()

    def _apply(self, names: Sequence[str]) -> StepOutcome:
        part = self._only(names)
        agreed = replace(self.agreed, ready=part, asks=False)
        return node_proofs.apply_nodes(
            self.site, part, self.lock_wait_s, self.roles, self.variables, agreed
        )

    def _validate(self, names: Sequence[str]) -> StepOutcome:
        return node_proofs.validate_nodes(self.site, self._only(names))

    def _only(self, names: Sequence[str]) -> session.Prepared:
        return self.ready.only(names)

    def _show(self, text: str, style: str = "") -> None:
        self.ready.screen.remark(Line(text, style))


def _is_left_alone(status: NodeStatus) -> bool:
    """Return whether a node waits for somebody else, or for `replace`, which also measures it."""
    other_verb = status.is_ours and not status.reason.startswith(f"{MARK} apply ")
    return is_foreign(status) or other_verb


@dataclass(frozen=True)
class Rolled:
    """How far batches went.

    Args:
        left: nodes of the batches that did not begin.
    """

    end: Stopped
    stopped: list[str]
    left: list[str]


def roll(groups: Iterable[list[str]], do: Callable[[Sequence[str]], Stopped]) -> Rolled:
    """Do batches until one stops."""
    waiting = list(groups)
    while waiting:
        names = waiting.pop(0)
        end = do(names)
        if end.code is not ExitCode.OK:
            return Rolled(end, names, [name for group in waiting for name in group])
    return Rolled(Stopped(), [], [])
