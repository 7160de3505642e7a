"""A site of a test's own, with its `runs/` beside it, and the verbs that are run on it."""

import json
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

# Of a quiet machine of two cores; see SiteRuns.limit_s.
TIMEOUT_S = 1800
WAIT_S = 600  # torch alone may take half of it to be imported


class SiteRuns:
    def __init__(self, directory: Path, site: Path) -> None:
        self.directory = directory
        self.site = site

    def limit_s(self, base_s: float) -> float:
        """Return a time limit for the machine as it is now, from that of a quiet one."""
        return base_s

    def argv(self, verb: str, *words: str) -> list[str]:
        return [sys.executable, "-m", "rdmaprov", verb, str(self.site), *words]

    def start(self, verb: str, *words: str) -> subprocess.Popen[str]:
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
        return self.end(self.start(verb, *words))

    def execute(self, *words: str) -> tuple[int, str]:
        return self.end(self._start([sys.executable, "-m", "rdmaprov", *words]))

    def end(self, process: subprocess.Popen[str]) -> tuple[int, str]:
        said, _ = process.communicate(timeout=self.limit_s(TIMEOUT_S))
        return process.returncode, said

    def start_until(self, verb: str, log: str, text: str, *words: str) -> subprocess.Popen[str]:
        runs = self.directory / "runs"
        before = set(runs.iterdir()) if runs.exists() else set()
        process = self.start(verb, *words)
        deadline = time.monotonic() + self.limit_s(WAIT_S)
        while process.poll() is None and time.monotonic() < deadline:
            logs = [path for path in runs.glob(f"*/logs/{log}") if path.parents[1] not in before]
            if any(text in path.read_text() for path in logs):
                return process
            time.sleep(0.1)
        said = process.stdout.read() if process.stdout else ""
        raise AssertionError(f"{text} did not appear in {log}: {said}")

    def newest(self) -> Path:
        runs = (path for path in (self.directory / "runs").iterdir() if path.is_dir())
        return max(runs, key=lambda path: path.stat().st_mtime_ns)

    def results(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads((self.newest() / "results.json").read_text())
        return document


def keep_validated(
    directory: Path, site: Path, names: Iterable[str], boots: Mapping[str, str] | None = None
) -> None:
    """Write a run of a complete validate that passed, in these boots if they are known."""
    nodes: dict[str, dict[str, object]] = {}
    for name in names:
        nodes[name] = {"state": "passed", "complete": True}
        if boots:
            nodes[name] |= {"boot_id": boots[name], "uptime_s": 600.0}
    path = directory / "runs/20260101-120000-validate/results.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"schema": 1, "site": str(site), "nodes": nodes}))
