"""What is left after roles ran, and after a reboot."""

from typing import Any

import pytest
from ansible.module_utils._internal import _messages
from plugins.module_utils.arguments import ROLES, plan_role
from plugins.module_utils.plan import Plan
from plugins.module_utils.roles import ORDER
from plugins.module_utils.survey import NOT_CURED, is_over, remaining, remember, survey
from plugins.plugin_utils.answers import Odd, role_answer, survey_answer
from tests.roles.fake import FakeMachine
from tests.tables import cases

CHANGE = {"layer": "running", "device": "ens1", "setting": "MTU", "seen": "1500", "wanted": "9000"}


def found(**changed: Any) -> dict[str, Any]:
    entry = {"changes": [], "reboot": [], "waits": "", **changed}
    pending = ["mtu"] if entry["changes"] or entry["waits"] else []
    return {"roles": {"mtu": entry}, "pending": pending, "problems": []}


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (found(), ""),
        (found(changes=[CHANGE]), "mtu: ens1: MTU (running) is 1500, expected 9000"),
        (found(waits="no driver"), "mtu: no driver"),
        (found(reboot=["1 GiB pages"]), ""),
    ],
)
def test_what_is_left_is_named(seen: dict[str, Any], said: str):
    assert remaining(seen, "") == said


def test_reason_for_a_reboot_that_a_reboot_did_not_take_away_is_left():
    assert remaining(found(reboot=["1 GiB pages"]), "a-boot") == "mtu: 1 GiB pages"


def test_run_keeps_the_node_only_for_a_reboot_that_follows():
    due = found(reboot=["1 GiB pages"])
    assert not is_over(due, "", reboots=True)
    assert is_over(due, "", reboots=False)
    assert is_over(due, "mtu: not in effect", reboots=True)
    assert is_over({**due, "problems": ["mtu: no driver"]}, "", reboots=True)
    assert is_over(found(), "", reboots=True)


def test_warnings_and_notes_of_a_role_are_handed_on(machine, monkeypatch):
    def plan(machine: FakeMachine, arguments: dict[str, Any]) -> Plan:  # noqa: ARG001
        made = Plan(machine)
        made.notes.append("dmabuf: the node supports it")
        made.warnings.append("/etc/environment:2: sets NCCL_IB_TC to 0")
        return made

    monkeypatch.setattr("plugins.module_utils.roles.peermem.plan", plan)
    seen = survey(machine, {"peermem": {"rails": [], "mode": "auto"}}, plan_role)
    assert seen["warnings"] == ["peermem: /etc/environment:2: sets NCCL_IB_TC to 0"]
    assert seen["roles"]["peermem"]["notes"] == ["dmabuf: the node supports it"]
    assert seen["pending"] == []


def test_survey_names_the_boot(machine: FakeMachine):
    machine.put("/proc/sys/kernel/random/boot_id", "67b5\n")
    assert survey(machine, {}, plan_role)["boot_id"] == "67b5"


def test_each_role_has_its_place_in_the_order():
    assert tuple(ROLES) == ORDER


WHY = "0000:18:00.0: NUM_OF_VFS takes effect when the firmware restarts"


@pytest.fixture
def due(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    reasons = [WHY]

    def plan(machine: FakeMachine, arguments: dict[str, Any]) -> Plan:  # noqa: ARG001
        made = Plan(machine)
        made.reboot = list(reasons)
        return made

    monkeypatch.setattr("plugins.module_utils.roles.peermem.plan", plan)
    return reasons


def look(machine: FakeMachine) -> dict[str, Any]:
    return survey(machine, {"peermem": {"rails": [], "mode": "auto"}}, plan_role)


def test_reboot_that_cured_nothing_is_not_repeated(machine: FakeMachine, due: list[str]):
    assert look(machine)["roles"]["peermem"]["reboot"] == [WHY]
    remember(machine, look(machine), rebooted=False)
    assert look(machine)["roles"]["peermem"]["reboot"] == [WHY]
    remember(machine, look(machine), rebooted=True)
    for _ in range(2):
        after = look(machine)
        assert after["roles"]["peermem"]["reboot"] == []
        assert after["problems"] == [f"peermem: still so after a reboot: {WHY}"]
        remember(machine, after, rebooted=False)
    due.append("another")
    assert look(machine)["roles"]["peermem"]["reboot"] == ["another"]


def test_reason_that_went_away_may_come_back(machine: FakeMachine, due: list[str]):
    remember(machine, look(machine), rebooted=True)
    due.clear()
    remember(machine, look(machine), rebooted=False)
    assert not machine.exists(NOT_CURED)
    due.append(WHY)
    assert look(machine)["roles"]["peermem"]["reboot"] == [WHY]


def test_survey_of_other_roles_forgets_nothing(machine: FakeMachine, due: list[str]):
    remember(machine, look(machine), rebooted=True)
    remember(machine, {"roles": {}, "not_cured": {}}, rebooted=False)
    assert look(machine)["problems"]
    assert due


def test_record_that_is_cut_counts_as_none(machine: FakeMachine, due: list[str]):
    machine.put(NOT_CURED, '{"peermem": [')
    assert look(machine)["roles"]["peermem"]["reboot"] == due


PLAN = {"changes": [], "diff": [], "reboot": [], "notes": ["chose dma-buf"], "waits": ""}
SURVEY = cases(__file__, "survey")
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
