"""A role's long step as a unit: what is started, what is answered, what is left on the node."""

import contextlib
import json
import os
import subprocess
import sys
import types
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from plugins.action.role import ActionModule
from plugins.module_utils import long_step
from plugins.module_utils.converge import converge
from plugins.module_utils.lock import RECORD, Held
from plugins.module_utils.long_step import BOOTED, STEPS, LongStep
from plugins.module_utils.machine import CommandFailed, NodeError
from plugins.module_utils.plan import CONFIGURED, Change, Plan
from plugins.plugin_utils.holder import of_process
from plugins.plugin_utils.node_lock import FACT, NodeClaim
from tests.roles.fake import FakeMachine
from tests.tables import cases

RUN, SECRET = "a" * 32, "password-of-a-mirror"
REQUEST = {"source": SECRET, "lock": {"holder": {"id": RUN}}}


@pytest.fixture
def node(machine: FakeMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeMachine:
    archive = tmp_path / "payload.zip"
    archive.write_bytes(b"zip")
    monkeypatch.setattr(long_step, "_archive", lambda: str(archive))
    monkeypatch.setattr(long_step, "connection", lambda _machine: "198.18.0.9 1 198.18.0.1 22")
    machine.put(f"{BOOTED}/x")
    machine.programs.update({"systemd-run": "", "systemctl reset-failed": ""})
    return machine


def says(node: FakeMachine, state: str, result: str = "success", status: int = 0) -> None:
    shown = f"ActiveState={state}\nResult={result}\nExecMainStatus={status}\n"
    node.programs["systemctl show"] = shown


def started(node: FakeMachine, run: str = RUN) -> LongStep:
    step = LongStep(node, "ofed", run)
    step.start(REQUEST)
    return step


def place(node: FakeMachine) -> Path:
    (found,) = Path(node.path(STEPS)).iterdir()
    return found


def test_unit_has_the_request_in_files_of_root_alone_and_not_on_its_command_line(node, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", SECRET)
    step = started(node)
    (line,) = [line for line in node.ran if line.startswith("systemd-run")]
    assert line.startswith(f"systemd-run --quiet --unit={step.unit} ")
    assert not {SECRET, RUN} & {word for word in line.split() if SECRET in word or RUN in word}
    assert f"--property=RuntimeMaxSec={long_step.LIMIT_S}" in line.split()
    assert line.endswith(f"-- {sys.executable} -I {place(node)}/program.py")
    assert place(node).stat().st_mode & 0o777 == 0o700
    for name in ("request.json", "environment.json"):
        assert (place(node) / name).stat().st_mode & 0o777 == 0o600
    environment = json.loads((place(node) / "environment.json").read_text())
    assert environment["HTTPS_PROXY"] == SECRET
    assert environment["SSH_CONNECTION"] == "198.18.0.9 1 198.18.0.1 22"
    assert long_step.take_request(str(place(node))) == {"role": "ofed", **REQUEST}
    assert not (place(node) / "request.json").exists()


def test_unit_runs_with_the_environment_of_the_module(node: FakeMachine):
    """In /proc, too, where the management path is looked for; the file does not stay."""
    started(node)
    program = place(node) / "program.py"
    text = program.read_text().partition("sys.path.insert")[0]
    program.write_text(f"{text}print(open('/proc/self/environ').read())\n")
    done = subprocess.run(
        [sys.executable, "-I", program], capture_output=True, text=True, check=True, env={}
    )
    assert "SSH_CONNECTION=198.18.0.9 1 198.18.0.1 22\0" in done.stdout
    assert not (place(node) / "environment.json").exists()


def test_refused_unit_leaves_nothing(node: FakeMachine):
    node.programs["systemd-run"] = CommandFailed(["systemd-run"], 1, "Access denied")
    with pytest.raises(NodeError, match=r"unit cannot be started: .*Access denied"):
        started(node)
    assert not [*Path(node.path(STEPS)).iterdir()]


def test_unit_answers_that_it_runs_then_its_result_once(node: FakeMachine):
    step = started(node)
    says(node, "active")
    assert step.answer() == {"changed": False, "running": True}
    long_step.write_result(str(place(node)), {"changed": True, "msg": "x"})
    assert step.answer() == {"changed": True, "msg": "x"}
    assert not [*Path(node.path(STEPS)).iterdir()]
    assert step.answer() is None


@pytest.mark.parametrize(
    ("result", "status", "why"),
    cases(__file__, "unit_that_ended_without_a_result_is_a_failure_with_the_reason"),
)
def test_unit_that_ended_without_a_result_is_a_failure_with_the_reason(node, result, status, why):
    step = started(node)
    says(node, "failed", result, status)
    assert step.answer() == {"failed": True, "msg": f"{why} (journalctl -u {step.unit})"}
    assert f"systemctl reset-failed {step.unit}" in node.ran
    assert step.answer() is None


def test_step_of_another_run_refuses_the_node_while_it_is_at_work(node: FakeMachine):
    started(node)
    says(node, "active")
    long_step.refuse(node, RUN)
    node.put(RECORD, json.dumps({"holder": {"id": RUN}, "until": 1e300}))
    with pytest.raises(Held) as refused:
        long_step.refuse(node, "b" * 32)
    assert (refused.value.held["running"], refused.value.held["step"]) == (True, True)
    says(node, "inactive")
    long_step.refuse(node, "b" * 32)


def test_only_what_ended_runs_left_is_removed(node: FakeMachine):
    for run in ("a" * 32, "b" * 32, "c" * 32):
        started(node, run)
    long_step.clear(node, "b" * 32, others=False)
    assert len(node.names(STEPS)) == 2
    long_step.clear(node, "c" * 32, others=True)
    assert [place(node).name] == [f"ofed-{long_step._digest('c' * 32)}"]


@pytest.mark.parametrize(
    ("lasts", "guarded", "is_left"), [(True, [], 1), (False, [], 0), (True, ["ens1"], 0)]
)
def test_only_a_long_plan_off_the_management_path_is_left_to_a_unit(node, lasts, guarded, is_left):
    def plan(machine: FakeMachine, _arguments: dict[str, object]) -> Plan:
        made = Plan(machine)
        if not machine.exists("/done"):
            change = Change(CONFIGURED, "packages", "doca", "absent", "installed")
            made.add(change, lambda: machine.write("/done", ""))
        made.is_long, made.guarded = lasts, guarded
        return made

    role = types.SimpleNamespace(plan=plan)
    result = converge(node, role, {}, check=False, leaves_long=True)
    assert ("running" in result, node.exists("/done")) == (bool(is_left), not is_left)
    assert "running" not in converge(node, role, {}, check=True, leaves_long=True)


def test_module_of_a_checkout_or_without_systemd_is_no_unit(node, machine, monkeypatch):
    assert long_step.is_possible(node)
    monkeypatch.setattr(sys, "executable", "/opt/my python/$x")
    assert not long_step.is_possible(node)
    monkeypatch.undo()
    assert not long_step.is_possible(machine)


@pytest.mark.parametrize("rounds", [False, True])
def test_action_asks_until_the_step_is_done_or_leaves_that_to_the_next_round(monkeypatch, rounds):
    plan: dict[str, Any] = {"changes": [], "reboot": [], "changed": True}
    answers = iter([{"changed": False, "running": True, "x": "y"}] * 2 + [plan])
    asked: list[dict[str, Any]] = []
    action: Any = ActionModule.__new__(ActionModule)
    action._task = types.SimpleNamespace(check_mode=False, action="rdmaprov.node.ofed", args={})
    action._templar = types.SimpleNamespace(template=lambda value: value)
    monkeypatch.setattr("ansible.plugins.action.ActionBase.run", lambda *_: {})
    monkeypatch.setattr(f"{ActionModule.__module__}.limited_memory", contextlib.nullcontext)

    def execute(module_args: dict[str, Any], **_: object) -> dict[str, Any]:
        asked.append(module_args["lock"])
        return next(answers)

    monkeypatch.setattr(action, "_execute_module", execute)
    monkeypatch.setattr(
        f"{ActionModule.__module__}.NodeClaim",
        lambda known, check: NodeClaim(known, check, lambda: 7.0, lambda _seconds: None),
    )
    lock: dict[str, Any] = {"holder": asdict(of_process(os.getpid(), "/runs/3")), "wait_s": 0}
    found = action.run(None, {"apply_lock": lock, "apply_rounds": rounds})
    assert asked[0]["unit"] is True
    assert (len(asked), found.get("running", False), found["changed"]) == (
        (1, True, False) if rounds else (3, False, True)
    )
    if rounds:
        fact = found["ansible_facts"][FACT]
        assert (fact["role"], fact["run"]) == ("ofed", lock["holder"]["id"])
        assert set(found) == {"changed", "running", "msg", "ansible_facts"}
