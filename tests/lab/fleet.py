"""The lab's nodes as a site of the user's own, and the verbs that are run on it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from tests.lab.handle import LabHandle

NODES = ("node1", "node2")
TIMEOUT_S = 1800
WAIT_S = 600  # torch alone may take half of it to be imported
# An emulated processor that others share takes a while to unpack a dozen modules for modinfo.
PATIENT = ("--command-timeout=60", "--node-timeout=900")
SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "results.schema.json").read_text())
LEFT = "ls -d /run/rdmaprov-accept* 2>/dev/null; pgrep -f 'rdmaprov-accept|agent.pyz'; true"


class Fleet:
    """The lab's own site, copied, with its `runs/` beside it."""

    def __init__(self, lab: LabHandle, directory: Path) -> None:
        self.lab = lab
        self.directory = directory
        self.site = lab.copy_site(directory)

    def argv(self, verb: str, *words: str) -> list[str]:
        """Return the command line of a verb."""
        return [sys.executable, "-m", "rdmaprov", verb, str(self.site), *words]

    def start(self, verb: str, *words: str) -> subprocess.Popen[str]:
        """Start a verb, in a process group of its own."""
        return self._start(self.argv(verb, *words))

    def _start(self, argv: list[str]) -> subprocess.Popen[str]:
        return subprocess.Popen(
            argv,
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, verb: str, *words: str) -> tuple[int, str]:
        """Return a verb's exit code and what it printed."""
        return _end(self.start(verb, *words))

    def execute(self, *words: str) -> tuple[int, str]:
        """Return exit code and words of a command that is not told of the site."""
        return _end(self._start([sys.executable, "-m", "rdmaprov", *words]))

    def start_until(self, verb: str, log: str, text: str, *words: str) -> subprocess.Popen[str]:
        """Start a verb, and return once a log of its run has a text."""
        runs = self.directory / "runs"
        before = set(runs.iterdir()) if runs.exists() else set()
        process = self.start(verb, *words)
        deadline = time.monotonic() + WAIT_S
        while process.poll() is None and time.monotonic() < deadline:
            logs = [path for path in runs.glob(f"*/logs/{log}") if path.parents[1] not in before]
            if any(text in path.read_text() for path in logs):
                return process
            time.sleep(0.1)
        said = process.stdout.read() if process.stdout else ""
        raise AssertionError(f"{text} did not appear in {log}: {said}")

    def newest(self) -> Path:
        """Return the directory of the run that began last."""
        runs = (path for path in (self.directory / "runs").iterdir() if path.is_dir())
        return max(runs, key=lambda path: path.stat().st_mtime_ns)

    def results(self) -> dict[str, Any]:
        """Return the results of the run that began last."""
        document: dict[str, Any] = json.loads((self.newest() / "results.json").read_text())
        return document

    def apply(self, *words: str) -> str:
        """Return what apply printed; it must end well."""
        code, said = self.run("apply", *words)
        assert code == 0, said
        return said

    def pending(self) -> dict[str, list[str]]:
        """Return by node the roles that have something to change."""
        code, said = self.run("plan")
        assert code in (0, 5), said
        return {name: list(node["changes"]) for name, node in self.results()["nodes"].items()}

    def judge(self) -> dict[str, list[str]]:
        """Return by state of a test FILE::FUNCTION[TARGET] with its message."""
        report = self.directory / "junit.xml"
        self.run("validate", *PATIENT, f"--junitxml={report}")
        return read_report(report)


def _end(process: subprocess.Popen[str]) -> tuple[int, str]:
    said, _ = process.communicate(timeout=TIMEOUT_S)
    return process.returncode, said


def read_report(report: Path) -> dict[str, list[str]]:
    """Return by state what pytest's report has of each test, as `Fleet.judge` does."""
    found: dict[str, list[str]] = {"passed": [], "failure": [], "error": [], "skipped": []}
    for case in ElementTree.parse(report).iter("testcase"):  # noqa: S314 (pytest's own)
        name = f"{case.get('classname', '').rpartition('.')[2]}.py::{case.get('name')}"
        state = next((each for each in case if each.tag in found), None)
        message = "" if state is None else f" {state.get('message')} {state.text or ''}"
        found["passed" if state is None else state.tag].append(name + message)
    return found


def leftovers_of_accept(lab: LabHandle) -> list[str]:
    """Return for each node what is left there of the acceptance gate."""
    return [lab.run(node, LEFT).strip() for node in NODES]
