"""What units of root's start: a Python that nobody else can change."""

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from plugins.module_utils import shipped
from plugins.module_utils.machine import CommandFailed
from plugins.module_utils.plan import Refused
from tests.roles.fake import FakeMachine
from tests.unit.helpers.shell import execute

weak_spot = shipped.weak_spot  # before a fixture replaces it
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give files away")
USER = 65534


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Provide a Python of a user's, which runs the module."""
    mine = tmp_path / "venv/bin/python3"
    monkeypatch.setattr(sys, "executable", str(mine))
    monkeypatch.setattr(shipped, "weak_spot", lambda path: path if path == str(mine) else "")
    return mine


def test_python_of_root_s_is_isolated(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "executable", "/opt/python3.11/bin/python3")
    started = "/opt/python3.11/bin/python3 -I -B /usr/local/lib/rdmaprov/pcie"
    assert shipped.command(machine, "pcie") == started


@pytest.mark.usefixtures("system")
def test_python_of_a_user_s_is_replaced_by_the_system_s(machine: FakeMachine):
    machine.programs["/usr/bin/python3 -I -c"] = ""
    started = "/usr/bin/python3 -I -B /usr/local/lib/rdmaprov/pcie"
    assert shipped.command(machine, "pcie") == started


def test_python_of_a_user_s_is_refused_if_the_system_s_is_too_old(machine, system):
    machine.programs["/usr/bin/python3 -I -c"] = CommandFailed(["/usr/bin/python3"], 1, "")
    with pytest.raises(Refused, match=rf"users other than root can change {system}, so no unit"):
        shipped.command(machine, "pcie")


def test_python_of_a_user_s_is_refused_if_the_system_s_is_one_too(machine, monkeypatch):
    monkeypatch.setattr(shipped, "weak_spot", lambda path: path)
    with pytest.raises(Refused, match=r"^ansible_python_interpreter: users other than root"):
        shipped.command(machine, "pcie")


def test_isolated_python_runs_a_program(tmp_path: Path):
    program = tmp_path / "program"
    (program / "node").mkdir(parents=True)
    (program / "node/__init__.py").touch()
    (program / "node/job.py").write_text("print('ran')")
    (program / "__main__.py").write_text("import runpy\nrunpy.run_module('node.job')\n")
    done = execute([sys.executable, "-I", "-B", program], check=True)
    assert done.stdout == "ran\n"


@pytest.fixture
def tree() -> Iterator[Path]:
    """Provide a directory that is root's from the first one on; tmp_path is everybody's."""
    with tempfile.TemporaryDirectory(dir="/root") as directory:
        yield Path(directory)


@needs_root
def test_file_of_root_s_has_no_weak_spot(tree: Path):
    (tree / "python3").touch(mode=0o755)
    assert weak_spot(str(tree / "python3")) == ""
    assert weak_spot("/usr/bin/env") == ""


@needs_root
@pytest.mark.parametrize("name", ["bin", "bin/python3"])
@pytest.mark.parametrize("how", ["owner", "mode"])
def test_what_others_can_change_is_named(tree: Path, name: str, how: str):
    (tree / "bin").mkdir(mode=0o755)
    (tree / "bin/python3").touch(mode=0o755)
    if how == "owner":
        os.chown(tree / name, USER, 0)
    else:
        (tree / name).chmod(0o757)
    assert weak_spot(str(tree / "bin/python3")) == str(tree / name)


@needs_root
def test_link_in_a_directory_of_a_user_s_is_named(tree: Path):
    """The link leads to a file of root's today."""
    home = tree / "home"
    home.mkdir(mode=0o755)
    (home / "python3").symlink_to("/usr/bin/env")
    (tree / "python3").symlink_to("home/python3")
    assert weak_spot(str(tree / "python3")) == ""
    os.chown(home, USER, USER)
    assert weak_spot(str(tree / "python3")) == str(home)


@needs_root
def test_link_of_a_user_s_is_named(tree: Path):
    (tree / "python3").symlink_to("/usr/bin/env")
    os.chown(tree / "python3", USER, USER, follow_symlinks=False)
    assert weak_spot(str(tree / "python3")) == str(tree / "python3")


def test_what_leads_nowhere_is_named(tmp_path: Path):
    (tmp_path / "circle").symlink_to("circle")
    assert weak_spot(str(tmp_path / "circle"))
    assert weak_spot("/nonexistent/python3") == "/nonexistent/python3"
