"""What `validate --from-states` does; apart from its options."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from rdmaprov.certificate.states import Proof, judge_states
from rdmaprov.cli import session
from rdmaprov.cli.options import PasswordOptions
from rdmaprov.runs.directory import RunDirectory
from rdmaprov.runs.groups import fold_last, group_by_text
from rdmaprov.runs.last_word import FAILED, PASSED, UNKNOWN
from rdmaprov.terminal import Line
from rdmaprov.validate.complete import Completeness
from rdmaprov.validate.results import CheckResult, CheckResults, Outcome, lines
from rdmaprov.validate.run import ValidateRequest, document
from rdmaprov.verbosity import Verbosity
from rdmaprov.words import duration

_OUTCOMES = {PASSED: Outcome.PASSED, FAILED: Outcome.FAILED, UNKNOWN: Outcome.ERROR}


def validate_states(
    site: Path,
    limit: str | None,
    directory: Path,
    max_age_h: float,
    json_file: IO[str] | None,
    passwords: PasswordOptions,
) -> int:
    """Verify what nodes signed, each in its file NODE.state; return the exit code."""
    started = datetime.now(UTC)
    with session.prepare(site, limit, json_file, passwords) as ready:
        proofs = judge_states(ready.fleet, directory, max_age_h)
        found = _results(proofs)
        with RunDirectory("validate", ready.mask, log="states.log") as kept:
            kept.log("\n".join(f"{each.node}: {each.text}" for each in proofs))
            request = ValidateRequest(site, limit, None, (), (), ready.waivers)
            data = document(request, started, datetime.now(UTC), found.exit_code(), found)
            for each in proofs:
                data["nodes"][each.node]["complete"] = each.state == PASSED
            text = kept.write_results(data)
    every = ready.screen.verbosity is Verbosity.VERBOSE
    texts = {each.node: [each.text] for each in proofs if every or each.kind}
    for said, names in group_by_text(texts).items():
        ready.screen.remark(Line(f"{','.join(fold_last(names))}: {said}"))
    if ages := [max(each.age_s, 0) for each in proofs if not each.kind]:
        ends = f"{duration(min(ages))} to {duration(max(ages))}"
        ready.screen.remark(Line(f"proven by states that are {ends} old"))
    session.conclude(kept, text, map(Line, lines(found)), ready.screen, json_file)
    return found.exit_code()


def _results(proofs: Sequence[Proof]) -> CheckResults:
    """Return proofs as a run of validate has its checks, one for each node."""
    asked = Completeness()
    asked.left_out.append("--from-states")
    asked.boots.update((p.node, (p.boot_id, float(p.uptime_s))) for p in proofs if p.boot_id)
    found = CheckResults(tuple(each.node for each in proofs), asked=asked)
    for each in proofs:
        test, why = f"state::proof[{each.node}]", f"{each.node}: {each.why}"
        finding = {"kind": each.kind, "part": ""}
        found.add(CheckResult(test, each.node, _OUTCOMES[each.state], why, finding=finding))
    return found
