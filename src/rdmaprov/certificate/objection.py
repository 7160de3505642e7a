"""How a finding that keeps a certificate from being valid is printed, and what it has as JSON."""

from __future__ import annotations

from rdmaprov.exit_codes import ExitCode
from rdmaprov.finding.finding import Finding
from rdmaprov.problem import printable
from rdmaprov.runs.groups import fold_names

VERDICTS = {ExitCode.OK: "valid", ExitCode.FAILED: "refused", ExitCode.UNKNOWN: "unknown"}


def as_data(found: Finding) -> dict[str, object]:
    """Return a finding as `--json` has it; docs/certificate.md describes it.

    `where` is the node or the place in the file, such as `predicate/floors/0/verdict`; empty for
    all of the file.
    """
    return {
        "kind": found.kind.removeprefix("certificate."),
        "where": found.node or fold_names(found.nodes) or found.part,
        "what": found.what,
        "proven": found.proven,
    }


def line(found: Finding) -> str:
    """Return a finding as one line that no terminal obeys."""
    data = as_data(found)
    where = f"{data['where']}: " if data["where"] else ""
    unknown = "" if found.proven else "unknown: "
    return printable(f"{unknown}{data['kind']}: {where}{found.what}")
