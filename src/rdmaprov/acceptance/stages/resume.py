"""Stages that are kept as they end, so that an interrupted acceptance can be resumed."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rdmaprov.acceptance.options import Options
from rdmaprov.acceptance.stage_report import StageReport, stage_from, stage_to_keep
from rdmaprov.errors import UsageError
from rdmaprov.runs.directory import runs_directory
from rdmaprov.runs.results import read_json

FILE = "stages.json"
_FORMAT = 5


@dataclass(frozen=True)
class Resumed:
    """What an interrupted run left.

    Args:
        nodes: what its tests depend on, as results.json has it of each node.
    """

    run: str = ""
    stages: Mapping[str, StageReport] = field(default_factory=dict)
    nodes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def identity(site: Path, nodes: Sequence[str], options: Options) -> dict[str, Any]:
    """Return what two runs must have in common for one to resume the other."""
    asked = {name: value for name, value in asdict(options).items() if name != "limit_s"}
    plain = json.loads(json.dumps(asked))
    return {"format": _FORMAT, "site": str(site.resolve()), "nodes": list(nodes), "options": plain}


def as_text(
    of: Mapping[str, Any], reports: Sequence[StageReport], entries: Mapping[str, Any]
) -> str:
    """Return the file of the stages that have ended, and of what the nodes were meanwhile."""
    stages = [stage_to_keep(report) for report in reports]
    return json.dumps({**of, "stages": stages, "entries": entries}, indent=1) + "\n"


def find_run(of: Mapping[str, Any], runs: Path | None = None) -> Path | None:
    """Return the newest interrupted run of the same site, nodes and options, None without one."""
    for path in sorted((runs or runs_directory()).glob(f"*-accept*/{FILE}"), reverse=True):
        kept = _read(path)
        if kept is not None and _is_same(kept, of):
            return path.parent if _is_interrupted(path.parent) else None
    return None


def read_stages(run: Path, of: Mapping[str, Any]) -> Resumed:
    """Return the whole stages of a run; UsageError: it has none, or other nodes or options."""
    kept = _read(run / FILE)
    if kept is None:
        raise UsageError(
            f"{run}: no stages to resume", "Name a run directory of accept: runs/*-accept"
        )
    if not _is_same(kept, of):
        hint = "Pass the same site, --limit and options as that run, or leave out --resume"
        raise UsageError(f"{run}: it was run with other nodes or options", hint)
    try:
        reports = [stage_from(each) for each in kept["stages"]]
        entries = {str(name): {**own} for name, own in kept["entries"].items()}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{run / FILE}: {error}", "Leave out --resume") from error
    return Resumed(run.name, {report.name: report for report in reports}, entries)


def _is_same(kept: Mapping[str, Any], of: Mapping[str, Any]) -> bool:
    return all(kept.get(name) == value for name, value in of.items())


def _is_interrupted(run: Path) -> bool:
    """Return whether a run has no result, or says that it was interrupted."""
    results = _read(run / "results.json")
    return results is None or results.get("interrupted") is True


def _read(path: Path) -> dict[str, Any] | None:
    try:
        data = read_json(path)
    except (OSError, ValueError):
        return None
    return data if isinstance(data, dict) else None
