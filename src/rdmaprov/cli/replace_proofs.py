"""The steps of `rdmaprov replace` that prove a node: apply, validate, accept."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rdmaprov.acceptance.launchers.choice import choose
from rdmaprov.acceptance.options import Options, parse_duration
from rdmaprov.acceptance.stages import parse_stages
from rdmaprov.apply import summary
from rdmaprov.apply.run import ApplyRequest
from rdmaprov.cli import accept_run, session
from rdmaprov.cli.replace_work import Work
from rdmaprov.cli.site_lock import node_lock_variables
from rdmaprov.exit_codes import ExitCode
from rdmaprov.runs.groups import fold_names
from rdmaprov.scheduler.service import StepOutcome
from rdmaprov.terminal import Line
from rdmaprov.validate import run as suite
from rdmaprov.validate.run import ValidateRequest

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
        work, ready = self._work, self._work.only(nodes)
        request = ApplyRequest(
            "apply", work.asked.site, tuple(nodes), ",".join(nodes), (), {}, ready.arguments,
            ready.waivers,
        )  # fmt: skip
        with session.start_run(request, ready) as run:
            run.add_variables({"apply_reboot": "if-needed"})
            run.add_variables(node_lock_variables(run.path, work.asked.wait_s))
            results = run.run_playbook("apply")
            lines = summary.apply_lines(results)
            code = session.finish(run, results, lines, ready.screen, None)
        return _outcome(code, f"apply, {run.path}")

    def validate(self, nodes: Sequence[str]) -> StepOutcome:
        """Validate these nodes alone."""
        return self._suite(nodes)

    def _suite(self, nodes: Sequence[str], *options: str) -> StepOutcome:
        ready = self._work.only(nodes)
        limit = ",".join(nodes)
        request = ValidateRequest(
            self._work.asked.site, limit, None, ("-q", *options), ready.arguments, ready.waivers
        )
        done = suite.run(request, ready.fleet, ready.mask)
        lines = map(Line, done.summary)
        session.conclude(done.directory, done.text, lines, ready.screen, None)
        return _outcome(done.code, f"validate, {done.directory.path}")

    def accept(self, nodes: Sequence[str]) -> StepOutcome:
        """Measure nodes with witnesses that are known good and idle, and the paths between them."""
        busy: list[str] = []
        for _ in range(_TRIES):
            witnesses = self._work.witnesses(busy)
            if not witnesses:
                break
            with self._held(witnesses):
                status = self._work.scheduler.status(witnesses)
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
        paths = self._suite(everyone, _PATHS)
        if not paths.is_ok:
            return paths
        ready = self._work.only(everyone)
        launcher = choose(ready.fleet.nodes, "", "").launcher
        if launcher == "slurm":
            self._work.tell("ranks are started over ssh: a drained node gets no Slurm job")
            launcher = "ssh"
        options = Options("auto", (), False, True, None, parse_stages(""), parse_duration(""), True)
        chosen = choose(ready.fleet.nodes, launcher, "")
        site, limit = self._work.asked.site, ",".join(everyone)
        result, path = accept_run.run_gate(site, limit, ready, options, chosen)
        named = sorted({name for finding in result.findings for name in finding.nodes})
        at_fault = f"; findings about {fold_names(named)}" if named else ""
        return _outcome(result.exit_code(), f"accept, {path}{at_fault}")

    @contextmanager
    def _held(self, witnesses: Sequence[str]) -> Iterator[None]:
        """Keep jobs off witnesses; first end what a killed run has held."""
        scheduler, journal = self._work.scheduler, self._work.journal
        first = self._work.asked.nodes[0]
        words = "\n".join([str(self._work.asked.site.resolve()), *self._work.asked.nodes])
        label = f"rdmaprov-{hashlib.sha256(words.encode()).hexdigest()[:8]}"
        if before := journal.get(first, "held"):
            scheduler.release(before, label)
        journal.note(first, held=list(witnesses))
        try:
            scheduler.hold(witnesses, label, _HOLD_S)
            yield
        finally:
            scheduler.release(witnesses, label)
            journal.note(first, held=[])


def _outcome(code: ExitCode, text: str) -> StepOutcome:
    """Return the outcome of a run.

    Raises:
        KeyboardInterrupt: the user stopped it.

    """
    if code is ExitCode.INTERRUPTED:
        raise KeyboardInterrupt
    return StepOutcome(code, text)
