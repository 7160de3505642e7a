"""The survey of one node with all that it read, and the survey of those readings alone."""

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from rdmaprov.apply.results import ProbeResult
from rdmaprov.drift import collection
from rdmaprov.drift.fleet import SURVEY_LIMIT_S, boot, judge_answer, request, survey_command
from rdmaprov.probe.connection import Answer
from rdmaprov.probe.errors import NoAnswer, NodeError
from rdmaprov.probe.probe import Probe
from rdmaprov.probe.target import Target
from rdmaprov.problem import printable


def read_node(target: Target, arguments: Mapping[str, Any]) -> object:
    """Return what the roles' plans read of a node, as module_utils.record has it, unchecked.

    Raises:
        NodeError: it is unreachable, or gives no survey.
    """
    probe = Probe({target.name: target})
    try:
        command = survey_command(target, request(arguments, record=True))
        answer = probe.run_all({target.name: command})[target.name]
    finally:
        probe.close()
    if isinstance(answer, NodeError):
        raise answer
    result = judge_answer(answer, arguments.keys())
    if result.survey is None:
        raise NoAnswer(f"{target.name}: {result.why}", f"Try: {target.login_command}")
    return json.loads(answer.out).get("record")


def survey_readings(
    readings: Mapping[str, Any], arguments: Mapping[str, Any], *, reboots: bool = False
) -> ProbeResult:
    """Return the result of a survey that reads a record and nothing else.

    It is a process of its own, which ends in time and may not open a file, start a program or
    connect, whatever the record says.

    Args:
        readings: as `read_node` returns them, of the right shape.
    """
    given = collection.archive() + request(arguments, answers=readings, reboots=reboots)
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", boot()],
            input=given,
            capture_output=True,
            timeout=SURVEY_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return ProbeResult(f"its record was not surveyed in {SURVEY_LIMIT_S} s")
    out, err = (text.decode("utf-8", "surrogateescape") for text in (done.stdout, done.stderr))
    result = judge_answer(Answer(done.returncode, out, err), arguments.keys())
    return ProbeResult(printable(result.why), result.survey, result.warnings)
