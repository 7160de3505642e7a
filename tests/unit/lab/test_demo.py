"""The demonstration's steps, and what it says of them. On nodes: tests/lab/test_provision.py."""

import pytest

from lab import demo
from rdmaprov.exit_codes import ExitCode

LAB = ("--dir", "elsewhere")
PROGRAM = """#!/bin/sh
echo "$@" >> {directory}/calls
case "$*" in *"status --json") echo '{{"patience": 2.5}}' ;; esac
"""


@pytest.fixture
def program(tmp_path, monkeypatch):
    path = tmp_path / "program"
    path.write_text(PROGRAM.format(directory=tmp_path))
    path.chmod(0o755)
    monkeypatch.setattr("lab.demo._program", lambda _: path)
    return lambda: (tmp_path / "calls").read_text().splitlines()


@pytest.mark.program
def test_a_step_that_ends_otherwise_is_the_last(tmp_path, capfd):
    steps = [
        demo.Step("one", ["rdmaprov", "--help"]),
        demo.Step("two", ["rdmaprov", "check", str(tmp_path / "nowhere")]),
        demo.Step("three", ["rdmaprov", "--help"]),
    ]
    assert demo.run(steps, tmp_path) == ExitCode.FAILED
    said = capfd.readouterr().out
    assert "ended with 3, expected 0" in said
    assert "three" not in said


def test_gate_comes_after_a_whole_validate_and_asks_for_no_exception():
    commands = [list(step.command) for step in demo.steps("site")]
    gate = next(each for each in commands if each[1] == "accept")
    assert commands[commands.index(gate) - 1] == ["rdmaprov", "validate", "site", demo.PATIENT]
    assert "--ignore-validate" not in gate


def test_limit_of_a_command_is_that_of_the_measured_machine(program, tmp_path):
    step = demo.Step("one", ["rdmaprov", "validate", "site", demo.PATIENT])
    assert demo.run([step], tmp_path, LAB) == ExitCode.OK
    limit_s = round(2.5 * demo.COMMAND_TIMEOUT_S)
    assert program() == [
        "lab --dir elsewhere status --json",
        f"validate site --command-timeout={limit_s}",
    ]


def test_what_takes_long_is_said_before_it_begins(program, tmp_path, capfd):
    assert demo.run([demo.Step("one", ["x"], takes="a while")], tmp_path) == ExitCode.OK
    assert capfd.readouterr().out.splitlines()[:2] == ["== 1/1 one (takes a while)", "$ x"]
    assert program() == [""]
    long = {step.command[1] for step in demo.steps("site") if "minute" in step.takes}
    assert {"lab", "apply", "validate", "accept"} <= long


def test_end_names_the_page_of_the_newest_gate(tmp_path):
    for run in ("20261126-1-accept", "20261126-2-accept", "20261126-3-validate"):
        (tmp_path / "runs" / run).mkdir(parents=True)
        (tmp_path / "runs" / run / "report.html").touch()
    said = "\n".join(demo.look_at(tmp_path))
    assert "runs/20261126-2-accept/report.html" in said
    assert "-1-accept" not in said
    assert "rdmaprov lab ssh" in said
    assert "docs/tutorial.md" in said
