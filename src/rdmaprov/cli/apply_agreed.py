"""What `rdmaprov apply` may do: what a kept plan says, or what the user was shown and agreed to."""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import click

from rdmaprov.apply import summary
from rdmaprov.apply.results import NodeResult, Results
from rdmaprov.apply.run import Run
from rdmaprov.cli import session
from rdmaprov.drift.kept_plan import KeptPlan, announced, differences, digest, due
from rdmaprov.runs.screen import Screen
from rdmaprov.terminal import Line
from rdmaprov.words import quantity


@dataclass(frozen=True)
class Agreement:
    """How far a run may go."""

    ready: session.Prepared
    reboot: str | None  # the option's value; None for the site's
    kept: KeptPlan | None = None
    asks: bool = False
    reverts: str = ""  # the run that is taken back; empty for apply

    def show(self, run: Run) -> Results:
        """Survey the nodes."""
        return (
            run.run_playbook("revert", only_shows=True)
            if self.reverts
            else run.run_playbook("plan")
        )

    def lines(self, found: Results) -> list[Line]:
        """Return the lines that show what was found."""
        verb = "revert" if self.reverts else "apply"
        return list(summary.plan_lines(found, diffs=False, verb=verb))

    def settle(self, run: Run) -> Results | None:
        """Survey the nodes and hold the run to what was found; return that if it is all.

        A node that differs from the kept plan is refused, and the others go on; one that matches
        the site by now needs nothing.

        Raises:
            click.exceptions.Exit: the user said no.
        """
        if not self.asks and self.kept is None:
            return None
        found = self.show(run)
        if self.kept is not None:
            for node in found.nodes.values():
                found.nodes[node.name] = self._held_to_plan(node, self.kept)
        pending = [node for node in found.nodes.values() if self._is_due(node)]
        if found.interrupted or not pending:
            return found
        if self.asks:
            run.write(found)
            session.page_line(run.directory)  # the page stays if the user says no
            for line in self.lines(found):
                self.ready.screen.show(line)
            if not agrees(pending, self.rebooted(pending), self.reverts):
                run.directory.require_all()
                raise click.exceptions.Exit(found.exit_code())
        names = {node.name for node in pending}
        run.settle(node for node in found.nodes.values() if node.name not in names)
        digests = {node.name: digest(node.planned) for node in pending}
        run.add_variables({"apply_planned": digests})
        return None

    def rebooted(self, nodes: Iterable[NodeResult]) -> list[str]:
        """Return the nodes that require a reboot and may get one."""
        fleet = self.ready.fleet.nodes
        policies = {node.name: self.reboot or node.get("reboot_policy") for node in fleet}
        return [node.name for node in nodes if node.reboot and policies[node.name] == "if-needed"]

    def _is_due(self, node: NodeResult) -> bool:
        return due(node) and (bool(node.planned.pending) or bool(self.rebooted([node])))

    def _held_to_plan(self, node: NodeResult, kept: KeptPlan) -> NodeResult:
        if node.before is None or node.problem or node.name not in kept.nodes:
            return node
        now = self.ready.mask.data(announced(node.before))
        if not now or now == kept.nodes[node.name]:
            return node
        why = "; ".join(differences(kept.nodes[node.name], now)) or "the order of its changes"
        return replace(node, failed="plan", problem=f"changed since {kept.file}: {why}")


def is_interactive(screen: Screen) -> bool:
    """Return whether somebody sees what a screen shows, and can answer."""
    return sys.stdin.isatty() and screen.is_terminal


def agrees(pending: Sequence[NodeResult], rebooted: Sequence[str], reverts: str = "") -> bool:
    """Ask whether to apply on nodes, or to take a run back; return the answer."""
    what = f"Take back {reverts} on" if reverts else "Apply these changes to"
    text = f"{what} {quantity(len(pending), 'node')}"
    if interrupted := [node for node in pending if node.planned.interrupts]:
        text += f", interrupt traffic on {len(interrupted)}"
    if rebooted:
        text += f", reboot {len(rebooted)}"
    return click.confirm(f"{text}?", err=True)
