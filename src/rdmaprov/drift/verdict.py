"""What an answer of the survey proves: that a node is as described, or nothing."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from rdmaprov.apply.events import parse_survey
from rdmaprov.apply.results import ProbeResult
from rdmaprov.probe.connection import Answer
from rdmaprov.probe.errors import NodeError
from rdmaprov.problem import printable

PROTOCOL = 1  # as module_utils.probed has it
_LISTS = ("changes", "reboot")


def judge_answer(answer: Answer | NodeError, roles: Collection[str]) -> ProbeResult:
    """Return what an answer proves.

    Args:
        answer: of the survey.
        roles: those that it was asked about.

    """
    if isinstance(answer, NodeError):
        return ProbeResult(printable(str(answer)))
    if answer.rc != 0:
        lines = answer.err.strip().splitlines() or ["it does not say why"]
        return ProbeResult(printable(f"its survey ended with {answer.rc}: {lines[-1]}"))
    try:
        data = json.loads(answer.out)
    except (ValueError, RecursionError):
        return ProbeResult("its survey is no JSON")
    if odd := _defect(data, roles):
        return ProbeResult(f"its survey {odd}")
    survey = parse_survey(data)
    warnings = tuple(str(one) for one in data["warnings"])
    return ProbeResult(_reasons(data), survey, warnings)


def _defect(data: Any, roles: Collection[str]) -> str:  # noqa: ANN401 - whatever a node sent
    """Return what is not as a survey must be, empty if all is."""
    if not isinstance(data, Mapping) or data.get("protocol") != PROTOCOL:
        return f"is not of protocol {PROTOCOL}"
    found = data.get("roles")
    if not isinstance(found, Mapping) or set(found) != set(roles):
        return "is about other roles"
    entries = all(
        isinstance(entry, Mapping)
        and all(isinstance(entry.get(name), list) for name in _LISTS)
        and isinstance(entry.get("waits"), str)
        for entry in found.values()
    )
    whole = all(isinstance(data.get(name), list) for name in ("pending", "problems", "warnings"))
    return "" if entries and whole and data.get("boot_id") else "lacks a part"


def _reasons(data: Mapping[str, Any]) -> str:
    """Return why Ansible must look at a node that was read."""
    said = [str(problem) for problem in data["problems"]]
    differs = [role for role, entry in data["roles"].items() if entry["changes"] or entry["waits"]]
    pending = list(dict.fromkeys([*map(str, data["pending"]), *differs]))
    if pending:
        said.append(f"{', '.join(pending)} to change")
    reasons = [reason for entry in data["roles"].values() for reason in entry["reboot"]]
    if reasons:
        said.append("a reboot is due: " + ", ".join(map(str, reasons)))
    return printable("; ".join(said))
