"""The verdict on a survey's answer: the node matches the site, or Ansible must run on it."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from rdmaprov.apply.events import parse_survey
from rdmaprov.apply.results import ProbeResult
from rdmaprov.drift.collection import import_plugin
from rdmaprov.probe.connection import Answer
from rdmaprov.probe.errors import NodeError
from rdmaprov.problem import printable

PROTOCOL = 1  # as module_utils.probed has it


def judge_answer(answer: Answer | NodeError, roles: Collection[str]) -> ProbeResult:
    """Return the result of a probe."""
    if isinstance(answer, NodeError):
        return ProbeResult(printable(str(answer)))
    if answer.rc != 0:
        lines = answer.err.strip().splitlines() or ["no reason given"]
        return ProbeResult(printable(f"survey failed with exit code {answer.rc}: {lines[-1]}"))
    try:
        data = json.loads(answer.out)
    except (ValueError, RecursionError):
        return ProbeResult("survey output is not JSON")
    if not isinstance(data, Mapping) or data.get("protocol") != PROTOCOL:
        return ProbeResult(f"survey output has another protocol than {PROTOCOL}")
    answers = import_plugin("plugin_utils.answers")
    try:
        checked = answers.survey_answer(data, roles)
    except answers.Odd as error:
        return ProbeResult(printable(f"survey output {error}"))
    return ProbeResult(_reasons(checked), parse_survey(checked), tuple(checked["warnings"]))


def _reasons(data: Mapping[str, Any]) -> str:
    """Return why Ansible must run on a node that was surveyed, empty if it need not."""
    reasons = list(data["problems"])
    if data["pending"]:
        reasons.append(f"pending: {', '.join(data['pending'])}")
    reboot = [reason for entry in data["roles"].values() for reason in entry["reboot"]]
    if reboot:
        reasons.append("reboot required: " + ", ".join(reboot))
    return printable("; ".join(reasons))
