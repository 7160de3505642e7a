"""What `plan --record` and `validate --record` do; apart from their options."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import IO

from rdmaprov.apply import summary
from rdmaprov.apply.results import NodeResult, ProbeResult, Results
from rdmaprov.apply.run import ApplyRequest
from rdmaprov.cli import pipe, session
from rdmaprov.cli.options import PasswordOptions
from rdmaprov.drift.arguments import Arguments, NotCertain
from rdmaprov.drift.record import survey_readings
from rdmaprov.errors import UsageError
from rdmaprov.inventory import Fleet
from rdmaprov.probe.recorded import RecordedProbe
from rdmaprov.record.document import NodeRecord, read_record, written_site
from rdmaprov.record.scrub import Scrub
from rdmaprov.runs.masks import Mask
from rdmaprov.terminal import Line
from rdmaprov.validate.run import ValidateRequest, run
from rdmaprov.words import quantity

# How remedies name the site of a record, which is gone when they are read.
_OWN_SITE = Path("SITE")
_TASK = "Survey the node"  # as the playbook calls it


def plan_record(
    site: Path | None,
    file: Path,
    roles: tuple[str, ...],
    diff: bool,
    json_file: IO[str] | None,
    passwords: PasswordOptions,
) -> int:
    """Show what apply would change on the node of a record; return the exit code.

    Args:
        site: an inventory directory with that node; None for the record's own site.
        roles: names of the roles; empty for all.

    Raises:
        RecordError: it is no record.
    """
    record = read_record(file)
    with _prepare(site, record, json_file, passwords) as ready:
        request = ApplyRequest(
            "plan", site or _OWN_SITE, ready.nodes, record.node, roles, {}, (), ready.waivers
        )
        with session.start_run(request, ready) as kept:
            results = Results(ready.nodes, applies=False)
            found = _survey(record, ready.fleet, roles, ready.mask)
            results.nodes[record.node] = _as_result(results.nodes[record.node], found)
            lines = summary.plan_lines(results, diffs=diff)
            return session.finish(kept, results, lines, ready.screen, json_file)


def validate_record(
    site: Path | None,
    file: Path,
    options: tuple[str, ...],
    json_file: IO[str] | None,
    passwords: PasswordOptions,
) -> int:
    """Verify the node of a record against a site; return the exit code.

    Args:
        site: an inventory directory with that node; None for the record's own site.

    Raises:
        RecordError: it is no record.
    """
    record = read_record(file)
    with _prepare(site, record, json_file, passwords) as ready:
        request = ValidateRequest(site or _OWN_SITE, None, None, options, (), ready.waivers)
        with pipe.to_stderr() if session.is_stdout(json_file) else nullcontext():
            done = run(request, ready.fleet, ready.mask, RecordedProbe(record.answers))
    session.conclude(done.directory, done.text, map(Line, done.summary), ready.screen, json_file)
    return done.code


@contextmanager
def _prepare(
    site: Path | None, record: NodeRecord, json_file: IO[str] | None, passwords: PasswordOptions
) -> Iterator[session.Prepared]:
    """Provide a valid site with the record's node alone."""
    own = written_site(record.node, record.variables) if site is None else nullcontext(site)
    with own as there, session.prepare(there, record.node, json_file, passwords) as ready:
        if ready.nodes != (record.node,):
            raise UsageError(
                f"{there} has {quantity(len(ready.nodes), 'node')} that {record.node} matches",
                "Leave SITE out: the record has its own.",
            )
        ready.mask.site = site
        yield ready


def _survey(record: NodeRecord, fleet: Fleet, roles: tuple[str, ...], mask: Mask) -> ProbeResult:
    try:
        arguments = Arguments(fleet, roles).of(record.node)
    except NotCertain as error:
        return ProbeResult(f"unknown without a run of Ansible: {error}")
    # Its readings have no secrets: what must be equal to them has none either.
    wanted = Scrub(mask).data(arguments)
    reboots = fleet.nodes[0].get("reboot_policy") == "if-needed"
    return survey_readings(record.readings, wanted, reboots=reboots)


def _as_result(node: NodeResult, found: ProbeResult) -> NodeResult:
    if found.survey is None:
        return replace(node, failed=_TASK, problem=found.why)
    problems = "; ".join(found.survey.problems)
    return replace(node, before=found.survey, failed=_TASK if problems else "", problem=problems)
