"""Each proof of tests/mutants.yml is red where its line is broken, and green where none is.

In a copy of the checkout: what is broken there, nothing else imports.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from tests.unit.helpers.mutants import ROOT, Entry, break_line, mutants
from tests.unit.helpers.shell import execute

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
    root = tmp_path_factory.mktemp("mutants")
    listed = execute(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
    )
    for name in listed.stdout.split("\0")[:-1]:
        if os.path.lexists(ROOT / name):  # git lists what was removed and not committed
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, root / name, follow_symlinks=False)
    return root


def run(copy: Path, *words: str) -> tuple[int, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    # No pipe, of which what a broken stop leaves behind would keep the other end.
    with tempfile.TemporaryFile("w+") as printed:
        done = subprocess.run(
            [sys.executable, *words],
            cwd=copy,
            env={**own, "PYTHONPATH": str(copy / "src"), "ANSIBLE_HOME": str(copy / ".ansible")},
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
            timeout=LIMIT_S,
            check=False,
        )
        printed.seek(0)
        return done.returncode, printed.read()


def judge(copy: Path, *proofs: str) -> tuple[int, str]:
    words = ("-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", SELECTED)
    return run(copy, *words, *proofs)


def test_copy_is_what_is_imported(copy):
    _, said = run(copy, "-c", WHERE)
    paths = [Path(word).resolve() for word in said.split()]
    assert len(paths) == 7, said
    assert [path for path in paths if not path.is_relative_to(copy.resolve())] == []


def test_proofs_are_green_where_nothing_is_broken(copy):
    code, said = judge(copy, *dict.fromkeys(each.proof for each in mutants()))
    assert code == 0, said
    # What is skipped proves nothing.
    assert "skipped" not in said.splitlines()[-1], said


@pytest.mark.parametrize("entry", [pytest.param(each, id=each.kind) for each in mutants()])
def test_proof_is_red_where_its_line_is_broken(copy, entry: Entry):
    path = copy / entry.file
    whole = path.read_text()
    path.write_text(break_line(whole, entry))
    try:
        code, said = judge(copy, entry.proof)
    finally:
        path.write_text(whole)
    assert code == FAILED, said
    assert " failed" in said.splitlines()[-1], said
