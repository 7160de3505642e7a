"""The verdict on a survey's answer: the node matches the site, or Ansible must run on it."""

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
    """Return the result of a probe.

    Args:
        answer: of the survey.
        roles: the roles that it had to cover.

    """
    if isinstance(answer, NodeError):
        return ProbeResult(printable(str(answer)))
    if answer.rc != 0:
        lines = answer.err.strip().splitlines() or ["no reason given"]
        return ProbeResult(printable(f"survey failed with exit code {answer.rc}: {lines[-1]}"))
    try:
        data = json.loads(answer.out)
    except (ValueError, RecursionError):
        return ProbeResult("survey output is not JSON")
    if defect := _defect(data, roles):
        return ProbeResult(f"survey output {defect}")
    survey = parse_survey(data)
    warnings = tuple(str(one) for one in data["warnings"])
    return ProbeResult(_reasons(data), survey, warnings)


def _defect(data: Any, roles: Collection[str]) -> str:  # noqa: ANN401 - whatever a node sent
    """Return what is wrong with a survey's output, empty if nothing is."""
    if not isinstance(data, Mapping) or data.get("protocol") != PROTOCOL:
        return f"has another protocol than {PROTOCOL}"
    found = data.get("roles")
    if not isinstance(found, Mapping) or set(found) != set(roles):
        return "covers other roles"
    entries = all(
        isinstance(entry, Mapping)
        and all(isinstance(entry.get(name), list) for name in _LISTS)
        and isinstance(entry.get("waits"), str)
        for entry in found.values()
    )
    whole = all(isinstance(data.get(name), list) for name in ("pending", "problems", "warnings"))
    return "" if entries and whole and data.get("boot_id") else "is incomplete"


def _reasons(data: Mapping[str, Any]) -> str:
    """Return why Ansible must run on a node that was surveyed, empty if it need not."""
    reasons = [str(problem) for problem in data["problems"]]
    differs = [role for role, entry in data["roles"].items() if entry["changes"] or entry["waits"]]
    pending = list(dict.fromkeys([*map(str, data["pending"]), *differs]))
    if pending:
        reasons.append(f"pending: {', '.join(pending)}")
    reboot = [reason for entry in data["roles"].values() for reason in entry["reboot"]]
    if reboot:
        reasons.append("reboot required: " + ", ".join(map(str, reboot)))
    return printable("; ".join(reasons))
