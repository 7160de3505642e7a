"""Runs that prove nodes that are out of service: apply and validate, on some nodes alone."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from rdmaprov.apply import summary
from rdmaprov.apply.run import ApplyRequest
from rdmaprov.cli import session
from rdmaprov.cli.site_lock import node_lock_variables
from rdmaprov.exit_codes import ExitCode
from rdmaprov.scheduler.service import StepOutcome
from rdmaprov.terminal import Line
from rdmaprov.validate import run as suite
from rdmaprov.validate.run import ValidateRequest

_CODES = {"passed": ExitCode.OK, "failed": ExitCode.FAILED, "unknown": ExitCode.UNKNOWN}


def apply_nodes(
    site: Path, ready: session.Prepared, wait_s: float, variables: Mapping[str, object]
) -> StepOutcome:
    """Apply on the nodes of a part of a site.

    Args:
        wait_s: seconds to wait for another run that holds a node.
    """
    limit = ",".join(ready.nodes)
    request = ApplyRequest(
        "apply", site, ready.nodes, limit, (), variables, ready.arguments, ready.waivers
    )
    with session.start_run(request, ready) as run:
        run.add_variables(node_lock_variables(run.path, wait_s))
        results = run.run_playbook("apply")
        lines = summary.apply_lines(results)
        code = session.finish(run, results, lines, ready.screen, None)
    return outcome_of_run(code, f"apply, {run.path}")


def validate_nodes(site: Path, ready: session.Prepared, *options: str) -> StepOutcome:
    """Validate the nodes of a part of a site; for each, what is about it alone.

    Args:
        options: pytest's, such as the name of a file of the suite.
    """
    limit = ",".join(ready.nodes)
    request = ValidateRequest(site, limit, None, ("-q", *options), ready.arguments, ready.waivers)
    done = suite.run(request, ready.fleet, ready.mask)
    lines = map(Line, done.summary)
    session.conclude(done.directory, done.text, lines, ready.screen, None)
    states = {name: each["state"] for name, each in json.loads(done.text)["nodes"].items()}
    outcome = outcome_of_run(done.code, f"validate, {done.directory.path}")
    own = {name: replace(outcome, code=_CODES[state]) for name, state in states.items()}
    return replace(outcome, nodes=own)


def outcome_of_run(code: ExitCode, text: str) -> StepOutcome:
    """Return the outcome of a run; raise KeyboardInterrupt if the user stopped it."""
    if code is ExitCode.INTERRUPTED:
        raise KeyboardInterrupt
    return StepOutcome(code, text)
