"""What `rdmaprov replace --dry-run` prints: each step, from what it finds now."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rdmaprov.apply import summary
from rdmaprov.apply.run import ApplyRequest
from rdmaprov.cli import session
from rdmaprov.cli.replace_looks import (
    difference_lines,
    differences,
    key_lines,
    machine_lines,
)
from rdmaprov.cli.replace_work import Work
from rdmaprov.discover import reach
from rdmaprov.exit_codes import ExitCode
from rdmaprov.probe.ansible_targets import Targets
from rdmaprov.replace import host_key
from rdmaprov.replace.machine import PROOFS, runs_elsewhere
from rdmaprov.runs.groups import fold_names
from rdmaprov.scheduler.choice import wait_s
from rdmaprov.scheduler.service import is_foreign
from rdmaprov.terminal import Line
from rdmaprov.words import duration


def show_plan(work: Work) -> ExitCode:
    """Print what would be done; return OK, or why it would stop."""
    steps: tuple[Callable[[Work], Iterator[str]], ...] = (_drain, _proofs, _witnesses)
    known = True
    targets = Targets(work.ready.given.become)
    for node in work.asked.nodes:
        key = host_key.look(targets.of(node, work.ready.fleet.variables(node)))
        known = known and (key is None or key.is_known)
        if key is not None:
            _show(work, "host key", _key(node, key))
    code = _read(work) if known else ExitCode.UNKNOWN
    for step in steps:
        _show(work, step.__name__.lstrip("_"), step(work))
    return code


def _key(node: str, key: host_key.HostKey) -> Iterator[str]:
    if key.is_known:
        yield f"{node}: {key.fingerprint} is known"
        return
    yield from key_lines(node, key)
    yield f"{node}: you would be asked, or pass --host-key; nothing is read from it before"


def _read(work: Work) -> ExitCode:
    """Show how machines differ, and what apply would change."""
    site, nodes, ready = work.asked.site, work.asked.nodes, work.replaced
    answers = reach.read_nodes(site, nodes, ready.arguments)
    for node in nodes:
        if node not in answers.facts:
            why = ready.mask.text(answers.failures.get(node, "no answer"))
            _show(work, "compare", iter([f"{node}: {why}"]))
            return ExitCode.UNKNOWN
    work.facts.update(answers.facts)
    _show(work, "compare", machine_lines(work, nodes))
    _show(work, "compare", difference_lines(differences(work, nodes)))
    request = ApplyRequest(
        "plan", site, nodes, ",".join(nodes), (), {}, ready.arguments, ready.waivers
    )
    with session.start_run(request, ready) as run:
        planned = run.run_playbook("plan")
        lines = summary.plan_lines(planned, diffs=False)
        code = session.finish(run, planned, lines, ready.screen, None)
    return ExitCode.OK if code is ExitCode.PENDING else code


def _drain(work: Work) -> Iterator[str]:
    limit = duration(wait_s(work.replaced.fleet.nodes))
    found = work.scheduler.status(work.asked.nodes)
    elsewhere = runs_elsewhere(found, "replace", work.journal)
    for node, status in found.items():
        if node in elsewhere:
            yield f"{node}: {elsewhere[node].text}"
        elif is_foreign(status):
            yield f"{node}: {status.text}: stays so, and is not resumed without --take-over"
        elif status.is_empty:
            yield f"{node}: {status.text}: nothing runs there"
        else:
            yield f"{node}: {status.text}: drained, then up to {limit} for jobs to end"


def _proofs(work: Work) -> Iterator[str]:
    for node in work.asked.nodes:
        left = [step for step in PROOFS if not work.journal.has(node, step)]
        yield f"{node}: {', '.join(left) or 'none; all were passed before'}"


def _witnesses(work: Work) -> Iterator[str]:
    yield fold_names(work.witnesses()) or "none is known good and idle: it would stop at accept"


def _show(work: Work, step: str, lines: Iterator[str]) -> None:
    for line in lines:
        work.ready.screen.show(Line(f"{step}: {line}"))
