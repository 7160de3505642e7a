"""validate/test_acceptance.py, as pytest runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.site_runs import keep_validated
from tests.unit.helpers.sites import GOOD, write

pytestmark = pytest.mark.program

REPOSITORY = Path(__file__).parents[3]


@pytest.fixture
def site(tmp_path):
    files = {**GOOD, "group_vars/nodes.yml": "ansible_host: 127.0.0.1\nansible_port: 9\n"}
    keep_validated(tmp_path, tmp_path / "site", ("n1", "n2"))
    return write(tmp_path / "site", files)


def suite(site, *words):
    """Return how pytest ended on nodes that refuse every connection."""
    # Without this Python's own options, such as those of a run with several workers.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
    return subprocess.run(
        [sys.executable, "-m", "pytest", f"--config-file={REPOSITORY}/validate/pytest.ini",
         f"--rootdir={REPOSITORY}/validate", "-p", "no:cacheprovider", f"--inventory={site}",
         "--hosts=all", *words],
        cwd=site.parent, env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def test_it_runs_only_when_it_is_asked_for(site):
    everything = suite(site, str(REPOSITORY / "validate"), "--collect-only", "-q")
    assert "test_mtu.py::" in everything.stdout
    assert "test_all_reduce" not in everything.stdout
    chosen = suite(site, str(REPOSITORY / "validate"), "--collect-only", "-q", "-m", "acceptance")
    assert "test_acceptance.py::test_all_reduce" in chosen.stdout
    assert "test_mtu.py::" not in chosen.stdout


def test_nodes_that_do_not_answer_are_an_error_and_no_failure(site):
    done = suite(site, str(REPOSITORY / "validate" / "test_acceptance.py"))
    assert "1 error" in done.stdout, done.stdout + done.stderr
    assert "n1: unreachable: ssh: connection refused" in done.stdout
    assert "(and 1 more)" in done.stdout


def test_state_comes_first_in_one_run(site):
    # One test of the same run that has failed of n1 is enough.
    other = site.parent / "test_other.py"
    other.write_text(
        "import pytest\npytestmark = pytest.mark.state\n"
        "def test_setting(node):\n    assert node.name != 'n1', 'it is wrong'\n"
    )
    place = str(REPOSITORY / "validate" / "test_acceptance.py")
    done = suite(site, str(other), place, "-p", "rdmaprov.validate.plugin")
    assert "1 failed, 1 passed, 1 error" in done.stdout, done.stdout + done.stderr
    assert "n1: unknown: not measured:" in done.stdout
