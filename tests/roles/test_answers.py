"""What modules answer passes the check as Ansible hands it on, warnings included."""

from __future__ import annotations

import pytest
from ansible.module_utils._internal import _messages
from plugins.plugin_utils.answers import Odd, role_answer, survey_answer

PLAN = {"changes": [], "diff": [], "reboot": [], "notes": ["chose dma-buf"], "waits": ""}
SURVEY = {
    "changed": False,
    "roles": {"limits": PLAN},
    "pending": [],
    "problems": [],
    "boot_id": "1f0e3dad-9990-4c8d-8f3b-7c9e1f2a3b4c",
    "invocation": {"module_args": {}},
}
WARNING = _messages.WarningSummary(event=_messages.Event(msg="/root/.nccl.conf:1: sets NCCL_IB_TC"))


def test_warning_is_its_text():
    """Ansible makes an object of each on its way to an action plugin; the probe has texts."""
    for warning in (WARNING, WARNING.event.msg):
        found = survey_answer({**SURVEY, "warnings": [warning]}, ["limits"])
        assert found["warnings"] == [WARNING.event.msg]
        assert role_answer({**PLAN, "changed": True, "warnings": [warning]})["warnings"] == [
            WARNING.event.msg
        ]


def test_warning_that_is_none_is_odd():
    with pytest.raises(Odd, match="warnings is no text"):
        role_answer({**PLAN, "changed": True, "warnings": [{"event": "x"}]})


def test_failed_survey_keeps_what_it_found():
    failed = {**SURVEY, "failed": True, "msg": "a problem", "problems": ["a problem"]}
    found = survey_answer(failed, ["limits"])
    assert (found["failed"], found["msg"], found["problems"]) == (True, "a problem", ["a problem"])


def test_interpreter_that_fails_says_why():
    raw = {
        "failed": True,
        "rc": 127,
        "module_stderr": "python3: not found\x1b[0m",
        "msg": "no JSON",
    }
    found = role_answer(raw)
    assert found["failed"]
    assert found["module_stderr"] == r"python3: not found\x1b[0m"
