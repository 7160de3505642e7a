"""A suite of our own, run by `pytest` with the plugin of `pytest validate/`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.program import Ended, call_main
from tests.unit.helpers import sites


def write_suite(directory: Path, text: str) -> Path:
    files = {
        "conftest.py": 'pytest_plugins = ["rdmaprov.validate.plugin"]\n',
        "pytest.ini": "[pytest]\naddopts = --strict-markers\n",
        "test_it.py": text,
    }
    return sites.write(directory / "suite", files)


def call_pytest(suite: Path, site: Path | None, *options: str, **environment: str) -> Ended:
    """Return how pytest ends in a fork of this process, which has imported all that it needs."""
    named = [] if site is None else [f"--inventory={site}"]
    words = (suite, "-p", "no:hypothesispytest", *options, *named)
    wide = {"COLUMNS": "400", **environment}
    return call_main(lambda: sys.exit(pytest.main()), words, suite.parent, wide)


def run(suite: Path, site: Path | None, *options: str, **environment: str) -> Ended:
    words = [sys.executable, "-m", "pytest", str(suite), "-p", "no:hypothesispytest", *options]
    if site is not None:
        words.append(f"--inventory={site}")
    wide = {**os.environ, "COLUMNS": "400", **environment}
    return subprocess.run(
        words, cwd=suite.parent, env=wide, capture_output=True, text=True, check=False
    )
