"""Nodes of the lab keep the bytecode of what Python imports from an archive."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

PLACE = Path(__file__).parents[3] / "lab/image/files/usr/lib/python3/dist-packages"
HOOK = "rdmaprov_lab_bytecode"
ROOT = "import os; os.geteuid = lambda: 0"
MODULE = "def fail():\n    raise ValueError('from the source')\n"


@pytest.fixture
def run(tmp_path):
    """Return a function that imports a module of an archive behind the hook.

    It returns the words printed, each once, as zipimport may compile a source twice; what went to
    standard error; and the files kept.
    """
    kept = tmp_path / "kept"

    def run_(source, code, archive="first.zip", before=ROOT):
        with zipfile.ZipFile(tmp_path / archive, "w") as written:
            written.writestr("sent.py", source)
        program = (
            f"import sys; sys.path.insert(0, {str(PLACE)!r}); {before}\n"
            f"import {HOOK} as hook; hook._DIRECTORY = {str(kept)!r}\n"
            "def compiled(path, source, compile_=hook._compile_source):\n"
            "    print('compiled'); return compile_(path, source)\n"
            "hook._compile_source = compiled\n"
            f"sys.path.insert(0, {str(tmp_path / archive)!r}); import sent\n{code}"
        )
        done = subprocess.run(
            [sys.executable, "-B", "-c", program], capture_output=True, text=True, check=False
        )
        return list(dict.fromkeys(done.stdout.split())), done.stderr, sorted(kept.glob("*"))

    return run_


def test_source_is_compiled_once_and_names_the_archive_that_it_came_in(run):
    first, _, files = run(MODULE, "")
    second, error, _ = run(MODULE, "sent.fail()", archive="second.zip")
    assert (first, second, len(files)) == (["compiled"], [], 1)
    assert "second.zip/sent.py" in error
    assert "ValueError: from the source" in error
    assert "first.zip" not in error


def test_other_source_is_compiled(run):
    run("value = 1\n", "")
    printed, _, files = run("value = 2\n", "print(sent.value)")
    assert (printed, len(files)) == (["compiled", "2"], 2)


@pytest.mark.parametrize("rest", [b"", b"\x00", b"no bytecode"])
def test_what_is_no_bytecode_is_compiled_again(run, rest):
    *_, (file,) = run("value = 1\n", "")
    file.write_bytes(rest)
    printed, error, _ = run("value = 1\n", "print(sent.value)")
    assert (printed, error) == (["compiled", "1"], "")


def test_root_alone_keeps_anything(run):
    before = "import os; os.geteuid = lambda: 1000"
    printed, error, files = run("value = 1\n", "print(sent.value)", before=before)
    assert (printed, error, files) == (["compiled", "1"], "", [])


def test_full_disk_is_no_error(run):
    full = f"{ROOT}; os.replace = lambda *_: (_ for _ in ()).throw(OSError(28, 'no space'))"
    printed, error, _ = run("value = 1\n", "print(sent.value)", before=full)
    assert (printed, error) == (["compiled", "1"], "")


def test_python_loads_it_at_each_start():
    assert (PLACE / f"{HOOK}.pth").read_text() == f"import {HOOK}\n"
