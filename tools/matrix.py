"""Runs the tests on each Python with each ansible-core that is supported: `make matrix`.

    python -m tools.matrix [--pair 3.13/2.21 ...] -- OPTIONS OF PYTEST FOR THE UNIT TESTS

Each pair has an environment below .matrix/, made from pyproject.toml. In it run the unit tests, and
one plan and one validate of a node behind a real sshd.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import time
import tomllib
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

ROOT = Path(__file__).parents[1]
PLACE = ROOT / ".matrix"
PYTHONS = ("3.11", "3.12", "3.13")
# Each ansible-core, with the first Python that its requires-python allows.
ANSIBLE_CORES = {"2.19": "3.11", "2.20": "3.12", "2.21": "3.12"}
OVER_SSH = "tests/cli/test_over_ssh.py"
VERBS = {"plan": "test_plan_over_ssh", "validate": "test_validate_over_ssh"}
HEAD = ("pair", "passed", "failed", "skipped", *VERBS, "clock", "processor", "result")
# What a Python must be and have to make an environment; it answers its version.
_ASK = "import ensurepip, venv, sys; print('%d.%d' % sys.version_info[:2])"


@dataclass(frozen=True)
class Pair:
    """A Python and an ansible-core, such as 3.13/2.21."""

    python: str
    ansible_core: str

    def __str__(self) -> str:
        """Return what --pair takes."""
        return f"{self.python}/{self.ansible_core}"


@dataclass(frozen=True)
class PairResult:
    """What a pair showed."""

    pair: Pair  # that ran
    error: str = ""  # why nothing ran; empty if it did
    passed: int = 0  # of the unit tests
    failed: int = 0  # of the unit tests, errors among them
    skipped: int = 0  # of the unit tests
    # how plan and validate ended, in the order of VERBS: `passed` or another word
    verbs: tuple[str, ...] = ()
    exit_codes: tuple[int, ...] = ()  # of pytest, for the unit tests and for plan and validate
    clock_s: float = 0.0  # seconds, the making of the environment included
    processor_s: float = 0.0  # seconds of processor for the same

    @property
    def is_good(self) -> bool:
        """Return whether tests ran and none failed, and plan and validate both passed."""
        ran = self.passed > 0 and not self.failed and not any(self.exit_codes)
        return not self.error and ran and self.verbs == ("passed",) * len(VERBS)

    def cells(self) -> tuple[str, ...]:
        """Return the row of the table."""
        times = tuple(f"{seconds / 60:.1f} min" for seconds in (self.clock_s, self.processor_s))
        if self.error:
            return (str(self.pair), *["-"] * (len(HEAD) - 4), *times, f"failed: {self.error}")
        counts = (str(self.passed), str(self.failed), str(self.skipped))
        result = "passed" if self.is_good else "failed"
        return (str(self.pair), *counts, *self.verbs, *times, result)


def pairs() -> list[Pair]:
    """Return each Python with each ansible-core that runs on it."""
    return [
        Pair(python, core)
        for python in PYTHONS
        for core, least in ANSIBLE_CORES.items()
        if PYTHONS.index(python) >= PYTHONS.index(least)
    ]


def wanted(names: Sequence[str]) -> list[Pair]:
    """Return the pairs of these names; all of them without a name.

    Raises:
        click.UsageError: there is no such pair.
    """
    known = {str(pair): pair for pair in pairs()}
    for name in names:
        if name not in known:
            raise click.UsageError(f"{name} is none of the pairs {', '.join(known)}")
    return [known[name] for name in names or known]


def find_python(version: str) -> str | None:
    """Return a program of this Python that can make environments, from PATH or pyenv."""
    name = f"python{version}"
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    places = [Path(each) for each in os.get_exec_path()]
    places += sorted(pyenv.glob(f"versions/{version}.*/bin"), reverse=True)
    for place in places:
        program = shutil.which(name, path=str(place))
        if program and _answer(program) == version:
            return program
    return None


def _answer(program: str) -> str:
    """Return the version of a Python; empty for a shim of pyenv without it, or without venv."""
    asked = subprocess.run([program, "-I", "-c", _ASK], capture_output=True, text=True, check=False)
    return asked.stdout.strip()


def environment(pair: Pair, python: str) -> Path:
    """Return the directory with a pair's environment, created again if pyproject.toml differs.

    Raises:
        subprocess.CalledProcessError: it cannot be made; pip has said why.
    """
    place = PLACE / str(pair).replace("/", "-")
    made, project = place / ".made", tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    if made.exists() and made.read_text() == json.dumps(project):
        return place
    subprocess.run([python, "-m", "venv", "--clear", str(place)], check=True)
    constraint = place / "constraints.txt"
    constraint.write_text(f"ansible-core=={pair.ansible_core}.*\n")
    pip = [str(place / "bin/python"), "-m", "pip", "install", "--quiet"]
    what = ["--constraint", str(constraint), "--editable", f"{ROOT}[dev]"]
    subprocess.run([*pip, *what], check=True)
    made.write_text(json.dumps(project))
    return place


def tested(place: Path, name: str, words: Sequence[str]) -> tuple[int, ET.Element]:
    """Return pytest's exit code in an environment, and its report; without tests if it made none.

    Args:
        place: of the environment.
        name: of the report.
        words: for pytest.
    """
    report = place / f"{name}.xml"
    report.unlink(missing_ok=True)
    variables = {**os.environ, "PATH": f"{place / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    variables["VIRTUAL_ENV"] = str(place)
    command = [str(place / "bin/python"), "-m", "pytest", f"--junitxml={report}", *words]
    code = subprocess.run(command, cwd=ROOT, env=variables, check=False).returncode
    if not report.exists():
        return code, ET.Element("testsuites")
    return code, ET.parse(report).getroot()  # noqa: S314 - pytest's own, see above


def outcome(case: ET.Element) -> str:
    """Return how a test of a report ended: passed, failed or skipped."""
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    return "passed" if case.find("skipped") is None else "skipped"


def of_verbs(report: ET.Element) -> tuple[str, ...]:
    """Return how plan and validate ended in a report; `not run` for what it does not have."""
    ended = {case.get("name"): outcome(case) for case in report.iter("testcase")}
    return tuple(ended.get(test, "not run") for test in VERBS.values())


def try_pair(pair: Pair, python: str | None, unit: Sequence[str]) -> PairResult:
    """Return what a pair shows.

    Args:
        pair: to run.
        python: that its environment is made with; None where there is none.
        unit: pytest's words for the unit tests.
    """
    if python is None:
        return PairResult(pair, f"no Python {pair.python}")
    begun, used = time.monotonic(), _processor_s()
    try:
        place = environment(pair, python)
    except subprocess.CalledProcessError:
        return PairResult(pair, "no environment")
    code, report = tested(place, "unit", unit)
    ended = Counter(outcome(case) for case in report.iter("testcase"))
    ids = [f"{OVER_SSH}::{test}" for test in VERBS.values()]
    code_of_verbs, report = tested(place, "over-ssh", ["-q", *ids])
    return PairResult(
        pair,
        passed=ended["passed"],
        failed=ended["failed"],
        skipped=ended["skipped"],
        verbs=of_verbs(report),
        exit_codes=(code, code_of_verbs),
        clock_s=time.monotonic() - begun,
        processor_s=_processor_s() - used,
    )


def _processor_s() -> float:
    """Return the seconds of processor of all programs that were waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def table(results: Iterable[PairResult]) -> Iterator[str]:
    """Yield the lines of the table: a head, and a row for each pair."""
    rows = [HEAD, *(each.cells() for each in results)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(HEAD))]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        yield "  ".join(cells).rstrip()


@click.command(help="Run the tests on each Python with each ansible-core.")
@click.option("--pair", "names", multiple=True, help="Such as 3.13/2.21; may be repeated.")
@click.argument("unit", nargs=-1, type=click.UNPROCESSED)
def main(names: tuple[str, ...], unit: tuple[str, ...]) -> None:
    """Run the pairs, print the table, and fail unless each pair passed."""
    chosen = wanted(names)
    programs = {version: find_python(version) for version in {pair.python for pair in chosen}}
    for version in sorted(version for version, program in programs.items() if not program):
        said = f"no Python {version} on PATH or in pyenv. Run: pyenv install {version}"
        click.echo(said, err=True)
    results = []
    for pair in chosen:
        click.echo(f"--- Python {pair.python}, ansible-core {pair.ansible_core}")
        results.append(try_pair(pair, programs[pair.python], unit))
    click.echo("\n".join(["", *table(results)]))
    if not all(each.is_good for each in results):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
