"""The steps of `rdmaprov replace` that prove a node: apply, validate, accept."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rdmaprov.acceptance.launchers.choice import choose
from rdmaprov.acceptance.options import Options, parse_duration
from rdmaprov.acceptance.stage_report import parse_stages
from rdmaprov.cli import accept_run, node_proofs
from rdmaprov.cli.replace_work import Work
from rdmaprov.exit_codes import ExitCode
from rdmaprov.runs.groups import fold_names
from rdmaprov.scheduler.service import StepOutcome

# A reservation of witnesses ends by then, if this process is killed; our choice, as a gate of tens
# of nodes takes minutes.
_HOLD_S = 2 * 3600.0
_TRIES = 3  # a job may start on a witness before it is held
_PATHS = "test_path.py"


class Proofs:
    """Proves nodes; see `Replacement.proofs`."""

    def __init__(self, work: Work) -> None:
        self._work = work

    def apply(self, nodes: Sequence[str]) -> StepOutcome:
        """Apply on these nodes alone, with a reboot where one is required."""
        asked = self._work.asked
        reboots = {"apply_reboot": "if-needed"}
        part = self._work.only(nodes)
        return node_proofs.apply_nodes(asked.site, part, asked.wait_s, variables=reboots)

    def validate(self, nodes: Sequence[str]) -> StepOutcome:
        """Validate these nodes alone."""
        return node_proofs.validate_nodes(self._work.asked.site, self._work.only(nodes))

    def accept(self, nodes: Sequence[str]) -> StepOutcome:
        """Measure nodes with witnesses that are known good and idle, and the paths between them."""
        busy: list[str] = []
        self._release_held()
        for _ in range(_TRIES):
            witnesses = self._work.witnesses(busy)
            if not witnesses:
                break
            with self._held(witnesses):
                status = self._work.witness_scheduler.status(witnesses)
                started = [name for name in witnesses if status[name].busy]
                if not started:
                    return self._measure(nodes, witnesses)
                busy += started
        text = "no other node is known good (a passed accept) and idle to measure with. "
        named = "Accept the fleet first, wait for an idle node, or name idle ones: --witnesses"
        return StepOutcome(ExitCode.UNKNOWN, text + named)

    def _measure(self, nodes: Sequence[str], witnesses: Sequence[str]) -> StepOutcome:
        self._work.tell(f"witnesses: {fold_names(witnesses)}")
        everyone = (*nodes, *witnesses)
        ready = self._work.only(everyone)
        paths = node_proofs.validate_nodes(self._work.asked.site, ready, _PATHS)
        if not paths.is_ok:
            return paths
        launcher = choose(ready.fleet.nodes, "", "").launcher
        if launcher == "slurm":
            self._work.tell("ranks are started over ssh: a drained node gets no Slurm job")
            launcher = "ssh"
        sizes, stages, soak = self._work.asked.sizes, parse_stages(""), parse_duration("")
        options = Options("auto", sizes, False, True, None, stages, soak, True)
        chosen = choose(ready.fleet.nodes, launcher, "")
        site, limit = self._work.asked.site, ",".join(everyone)
        result, path = accept_run.run_gate(site, limit, ready, options, chosen)
        named = sorted({name for finding in result.findings for name in finding.nodes})
        at_fault = f"; findings about {fold_names(named)}" if named else ""
        return node_proofs.outcome_of_run(result.exit_code(), f"accept, {path}{at_fault}")

    def _release_held(self) -> None:
        """End what a killed run has held: a reserved node is not idle, and no witness."""
        first = self._work.asked.nodes[0]
        if before := self._work.journal.get(first, "held"):
            self._work.scheduler.release(before, self._label())
            self._work.journal.note(first, held=[])

    @contextmanager
    def _held(self, witnesses: Sequence[str]) -> Iterator[None]:
        """Keep jobs off witnesses."""
        scheduler, journal = self._work.witness_scheduler, self._work.journal
        first, label = self._work.asked.nodes[0], self._label()
        journal.note(first, held=list(witnesses))
        try:
            scheduler.hold(witnesses, label, _HOLD_S)
            yield
        finally:
            scheduler.release(witnesses, label)
            journal.note(first, held=[])

    def _label(self) -> str:
        """Return the reservation's name, the same for a site and its nodes in each run."""
        words = "\n".join([str(self._work.asked.site.resolve()), *self._work.asked.nodes])
        return f"rdmaprov-{hashlib.sha256(words.encode()).hexdigest()[:8]}"
