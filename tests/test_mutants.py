"""Each proof of tests/mutants.yml is red where its line is broken, and green where none is.

In a copy of the checkout: what is broken there, nothing else imports.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.helpers.mutants import ROOT, Entry, break_line, mutants

pytestmark = pytest.mark.long

# As the Makefile's targets check, program and pass leave out what is not in `make test`.
SELECTED = "not (lab or browser or gpu or long or hours)"
FAILED = 1  # pytest's exit status; others are its own troubles
LIMIT_S = 600
WHERE = """
import ansible_collections.rdmaprov.node.plugins.module_utils.plan as collected
import plugins.module_utils.plan, rdmaprov, rdmaprov.resources
print(collected.__file__, plugins.module_utils.plan.__file__, rdmaprov.__file__)
print(*map(rdmaprov.resources.data_dir, ("validate", "playbooks", "lab", "inventory")))
"""


@pytest.fixture(scope="session")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide a copy of the checkout, with what is not committed and without what git ignores."""
    root = tmp_path_factory.mktemp("mutants")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in listed.stdout.split("\0")[:-1]:
        if os.path.lexists(ROOT / name):  # git lists what was removed and not committed
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, root / name, follow_symlinks=False)
    return root


def run(copy: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run Python with the copy's own packages, in place of the checkout's."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.run(
        [sys.executable, *words],
        cwd=copy,
        env={**own, "PYTHONPATH": str(copy / "src"), "ANSIBLE_HOME": str(copy / ".ansible")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def judge(copy: Path, *proofs: str) -> subprocess.CompletedProcess[str]:
    words = ("-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", SELECTED)
    return run(copy, *words, *proofs)


def test_copy_is_what_is_imported(copy):
    done = run(copy, "-c", WHERE)
    paths = [Path(word).resolve() for word in done.stdout.split()]
    assert len(paths) == 7, done.stderr
    assert [path for path in paths if not path.is_relative_to(copy.resolve())] == []


def test_proofs_are_green_where_nothing_is_broken(copy):
    done = judge(copy, *dict.fromkeys(each.proof for each in mutants()))
    assert done.returncode == 0, done.stdout + done.stderr
    # What is skipped proves nothing.
    assert "skipped" not in done.stdout.splitlines()[-1], done.stdout


@pytest.mark.parametrize("entry", [pytest.param(each, id=each.kind) for each in mutants()])
def test_proof_is_red_where_its_line_is_broken(copy, entry: Entry):
    path = copy / entry.file
    whole = path.read_text()
    path.write_text(break_line(whole, entry))
    try:
        done = judge(copy, entry.proof)
    finally:
        path.write_text(whole)
    assert done.returncode == FAILED, done.stdout + done.stderr
    assert " failed" in done.stdout.splitlines()[-1], done.stdout
