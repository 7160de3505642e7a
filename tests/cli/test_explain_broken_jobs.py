"""`rdmaprov explain nccl-log` on logs of real jobs: expected.yml says what it must answer."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from rdmaprov import cli

FIXTURES = Path(__file__).parents[1] / "fixtures" / "nccl"
EXPECTED = yaml.safe_load((FIXTURES / "expected.yml").read_text())
RAN = yaml.safe_load((FIXTURES / "jobs_that_ran.yml").read_text())


def name(case):
    return " ".join([*case["logs"], *case.get("options", ())])


@pytest.mark.parametrize("case", EXPECTED, ids=name)
def test_log_gives_the_cause_first(case, monkeypatch, capsys):
    monkeypatch.chdir(FIXTURES)
    code = cli.run(["explain", "nccl-log", *case["logs"], *case.get("options", ())])
    printed = "".join(capsys.readouterr())
    head = "\n".join(printed.splitlines()[:5])
    assert code == case["code"], printed
    assert [word for word in case.get("head", ()) if word not in head] == [], printed
    assert [word for word in case.get("some", ()) if word not in printed] == [], printed
    assert [word for word in case.get("not", ()) if word in printed] == [], printed


@pytest.mark.parametrize("case", RAN, ids=lambda case: case["log"])
def test_nothing_new_is_said_of_a_job_that_ran(case, monkeypatch, capsys):
    monkeypatch.chdir(FIXTURES)
    code = cli.run(["explain", "nccl-log", case["log"]])
    assert "".join(capsys.readouterr()) == case["text"]
    assert code == case["code"]


def test_every_log_of_a_failed_job_has_an_expectation():
    used = {log for case in EXPECTED for log in case["logs"]} | {case["log"] for case in RAN}
    here = {
        str(path.relative_to(FIXTURES))
        for room in ("reports", "public", "h100", "h200")
        for path in (FIXTURES / room).glob("*.log")
    }
    assert here <= used
