"""`make matrix`: which pairs there are, and that only a pair whose tests all ran is good."""

import re
import tomllib
import xml.etree.ElementTree as ET
from dataclasses import replace

import click
import pytest
from click.testing import CliRunner
from tools import matrix
from tools.matrix import Pair, PairResult

from rdmaprov.exit_codes import ExitCode

PAIR = Pair("3.12", "2.20")
GOOD = PairResult(
    PAIR, passed=10, skipped=2, verbs=("passed", "passed"), exit_codes=(0, 0), clock_s=90.0
)


def test_pairs_are_those_that_exist():
    found = [str(pair) for pair in matrix.pairs()]
    assert found == ["3.11/2.19", *(f"{py}/2.{n}" for py in ("3.12", "3.13") for n in (19, 20, 21))]
    assert matrix.wanted(["3.12/2.20"]) == [PAIR]
    with pytest.raises(click.UsageError, match=r"3\.11/2\.20 is none of the pairs 3\.11/2\.19, "):
        matrix.wanted(["3.11/2.20"])


def test_pyproject_allows_what_the_matrix_has():
    project = tomllib.loads((matrix.ROOT / "pyproject.toml").read_text())["project"]
    [core] = [each for each in project["dependencies"] if each.startswith("ansible-core")]
    least, newest = min(matrix.ANSIBLE_CORES), max(matrix.ANSIBLE_CORES)
    after = f"2.{int(newest.removeprefix('2.')) + 1}"
    assert core == f"ansible-core>={least},<{after}"
    assert project["requires-python"] == f">={matrix.PYTHONS[0]}"


def test_lock_is_of_the_first_python():
    lock = (matrix.ROOT / "requirements.lock").read_text()
    [locked] = re.findall(r"^ansible-core==(\d+\.\d+)", lock, re.MULTILINE)
    assert matrix.ANSIBLE_CORES[locked] == matrix.PYTHONS[0]


@pytest.mark.parametrize(
    "wrong",
    [
        {"passed": 0},
        {"failed": 1},
        {"exit_codes": (2, 0)},
        {"exit_codes": (0, 5)},
        {"verbs": ("skipped", "passed")},
        {"verbs": ("passed", "not run")},
        {"error": "no environment"},
    ],
)
def test_pair_is_good_only_if_all_ran_and_passed(wrong):
    assert GOOD.is_good
    assert not replace(GOOD, **wrong).is_good


def test_verb_that_did_not_pass_says_so():
    report = ET.Element("testsuite")
    for name, ended in (("test_plan_over_ssh", "skipped"), ("test_other", "error")):
        ET.SubElement(ET.SubElement(report, "testcase", name=name), ended)
    assert matrix.of_verbs(report) == ("skipped", "not run")
    assert [matrix.outcome(case) for case in report] == ["skipped", "failed"]


def test_table_has_a_row_for_each_pair():
    lines = list(matrix.table([GOOD, PairResult(Pair("3.13", "2.21"), "no Python 3.13")]))
    assert lines[0].split() == list(matrix.HEAD)
    assert " ".join(lines[1].split()) == "3.12/2.20 10 0 2 passed passed 1.5 min 0.0 min passed"
    assert lines[2].endswith("failed: no Python 3.13")


def test_python_of_the_path_that_does_not_work_is_passed_over(tmp_path, monkeypatch):
    """As a shim of pyenv for a version that is not chosen."""
    for place, does in {"shims": "exit 127", "own/versions/3.12.9/bin": "echo 3.12"}.items():
        program = tmp_path / place / "python3.12"
        program.parent.mkdir(parents=True)
        program.write_text(f"#!/bin/sh\n{does}\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "shims"))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "own"))
    assert matrix.find_python("3.12") == str(tmp_path / "own/versions/3.12.9/bin/python3.12")
    assert matrix.find_python("3.13") is None


def test_missing_python_is_named_and_fails(monkeypatch):
    monkeypatch.setattr(matrix, "find_python", lambda _: None)
    done = CliRunner().invoke(matrix.main, ["--pair=3.13/2.19", "--", "-q"])
    assert done.exit_code == ExitCode.FAILED
    assert "no Python 3.13 on PATH or in pyenv. Run: pyenv install 3.13" in done.stderr
    assert done.stdout.endswith("failed: no Python 3.13\n")


def test_tests_of_the_verbs_are_there():
    text = (matrix.ROOT / matrix.OVER_SSH).read_text()
    assert all(f"def {test}(" in text for test in matrix.VERBS.values())
