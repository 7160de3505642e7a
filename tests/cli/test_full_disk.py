"""The controller's disk is full: the summary is shown, then what cannot be written; exit 4."""

import subprocess
from pathlib import Path

import click
import pytest
from tests.full_disk import full_disk
from tests.program import ARGV, call
from tests.report import runs
from tests.tables import cases
from tests.unit.helpers.sites import GOOD, write

from rdmaprov.cli import discover, run, session
from rdmaprov.discover import reach, variables
from rdmaprov.exit_codes import ExitCode
from rdmaprov.runs.directory import RunDirectory
from rdmaprov.runs.files import NotWritten
from rdmaprov.runs.masks import Mask
from rdmaprov.terminal import Line

HOSTS = cases(__file__, "hosts")
CLOSED = "    ansible_host: 127.0.0.1\n    ansible_port: 1\n    ansible_ssh_timeout: 5\n"
HERE = "    ansible_connection: local\n"
PAGE = 4096
FULL = "No space left on device"


@pytest.fixture
def disk(tmp_path):
    """Provide the working directory of a verb, on a disk that is full."""
    with full_disk(tmp_path / "disk") as disk:
        yield disk


def site(tmp_path: Path, variables: str) -> Path:
    return write(tmp_path / "site", {**GOOD, "hosts.yml": HOSTS + variables})


def rdmaprov(disk, *words):
    return call(*words, cwd=disk.path, COLUMNS="300")


def files(disk) -> dict[str, int]:
    paths = (disk.path / "runs").glob("2*/**/*")
    return {path.name: path.lstat().st_size for path in paths if not path.is_dir()}


AGAIN = "hint:  Free space there, then run the same command again."


def require_full(done, *names: str) -> None:
    """Require that a verb ends with what could not be written."""
    assert done.returncode == ExitCode.UNKNOWN
    error, hint = [line for line in done.stderr.splitlines() if line][-2:]
    assert error.startswith("error: cannot write runs/")
    assert error.endswith(f": {FULL}")
    assert [name for name in names if name not in error] == []
    assert hint == AGAIN
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("verb", "log"), [("plan", "ansible.log"), ("apply", "ansible.log"), ("accept", "ranks.jsonl")]
)
def test_summary_comes_first_and_then_what_is_missing(tmp_path, disk, verb, log):
    done = rdmaprov(disk, verb, site(tmp_path, CLOSED))
    require_full(done, "results.json")
    assert "2 nodes" in done.stdout
    assert files(disk) == {log: 0}


def test_checks_that_pass_are_shown_and_not_green(tmp_path, disk):
    own = tmp_path / "test_own.py"
    own.write_text("def test_name(node):\n    assert node.name\n")
    done = rdmaprov(disk, "validate", site(tmp_path, HERE), own)
    require_full(done, "junit.xml", "results.json")
    assert "2 nodes: 2 passed; 2 checks passed" in done.stdout
    assert files(disk) == {"pytest.log": 0}


def test_page_alone_is_written_again_by_report(disk, monkeypatch, capsys):
    monkeypatch.chdir(disk.path)
    disk.leave(16 * PAGE)
    with RunDirectory("validate", Mask([])) as directory:
        text = directory.write_results(runs.validated(4))
        disk.leave(0)
        shown = session.screen_for(None, Mask([]))
        with pytest.raises(NotWritten) as raised:
            session.conclude(directory, text, [Line("4 nodes")], shown, None)
    path = directory.path
    assert capsys.readouterr().out.startswith(f"4 nodes\nresults: {path}\nreport: not written")
    assert raised.value.message == f"cannot write {path}/report.html: {FULL}"
    assert raised.value.hint == f"Free space there, then run: rdmaprov report {path}"
    assert sorted(files(disk)) == ["ansible.log", "results.json"]


def test_json_for_the_user_is_whole_or_absent(tmp_path, disk, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = click.File("w", lazy=True)(str(disk.path / "said.json"))
    with RunDirectory("validate", Mask([])) as directory:
        text = directory.write_results(runs.validated(4))
        shown = session.screen_for(said, Mask([]))
        with pytest.raises(NotWritten, match=rf"^cannot write {disk.path}/said.json: {FULL}$"):
            session.conclude(directory, text, [], shown, said)
    said.close()
    assert not (disk.path / "said.json").exists()
    assert (directory.path / "report.html").is_file()


def test_standard_output_on_a_full_disk_is_one_error(disk):
    with (disk.path / "said").open("w") as said:
        done = subprocess.run(
            [*ARGV, "schema"], stdout=said, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == ExitCode.UNKNOWN
    assert done.stderr.splitlines()[0].endswith(FULL)
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


def test_log_ends_where_the_disk_is_full(disk, monkeypatch):
    monkeypatch.chdir(disk.path)
    disk.leave(PAGE)
    with RunDirectory("plan", Mask([])) as directory:
        directory.log("x" * (2 * PAGE))
        disk.leave(PAGE)
        directory.log("later")
        with pytest.raises(NotWritten, match=r"ansible\.log: No space"):
            directory.require_all()
    (log,) = disk.path.glob("runs/*/logs/*")
    assert "later" not in log.read_text()


def test_results_that_were_written_again_are_not_missing(disk, monkeypatch):
    monkeypatch.chdir(disk.path)
    with RunDirectory("apply", Mask([])) as directory:
        directory.write_results({"verdict": "ok"})
        assert directory.missed
        disk.leave(PAGE)
        directory.write_results({"verdict": "ok"})
        directory.require_all()


def test_host_variables_stay_as_they_were(disk, monkeypatch, capsys):
    disk.leave(64 * PAGE)
    place = site(disk.path, HERE)
    before = "---\nunit: 1  # kept\n"
    (place / "host_vars").mkdir()
    (place / "host_vars/n1.yml").write_text(before)
    disk.leave(0)
    facts: dict[str, dict[str, object]] = {"n1": {}, "n2": {}}
    monkeypatch.setattr(discover, "_collect", lambda *_: reach.NodeFacts(facts, {}))
    monkeypatch.setattr(variables, "remarks", lambda *_: ())
    monkeypatch.setattr(variables, "host_variables", lambda *_: {"fabric_gpus": "x" * PAGE})
    monkeypatch.setattr(variables, "compare", lambda known, _: (known, []))
    assert run(["discover", str(place), "--merge"]) == ExitCode.UNKNOWN
    error, hint = capsys.readouterr().err.splitlines()
    files = f"{place}/host_vars/n1.yml, {place}/host_vars/n2.yml"
    assert error == f"error: cannot write {files}: {FULL}"
    assert hint == AGAIN
    assert (place / "host_vars/n1.yml").read_text() == before
    assert [path.name for path in (place / "host_vars").iterdir()] == ["n1.yml"]


def test_host_variables_keep_their_owner_and_permissions(tmp_path):
    path = tmp_path / "host_vars/n1.yml"
    path.parent.mkdir()
    path.write_text("---\nunit: 1\n")
    path.chmod(0o640)
    before = path.stat()
    variables.merge_host_vars(tmp_path, "n1", {"fabric_gpus": 1})
    after = path.stat()
    for what in ("st_mode", "st_uid", "st_gid"):
        assert getattr(after, what) == getattr(before, what), what
