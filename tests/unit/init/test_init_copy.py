"""A shipped site can be copied, as it is."""

import subprocess
from pathlib import Path

import pytest

from rdmaprov.cli import run
from rdmaprov.cli.init import REFERENCES
from rdmaprov.exit_codes import ExitCode

SITES = Path(__file__).parents[3] / "inventory"


def test_every_shipped_site_can_be_copied():
    shipped = subprocess.run(
        ["git", "ls-files", "--", "."], cwd=SITES, capture_output=True, text=True, check=True
    )
    assert {name.partition("/")[0] for name in shipped.stdout.split()} == set(REFERENCES)


@pytest.mark.parametrize("name", REFERENCES)
def test_copy_has_the_site_s_files_and_names_what_is_next(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
):
    site = tmp_path / "a/new"
    assert run(["init", "--from", name, str(site)]) == ExitCode.OK
    *wrote, then = capsys.readouterr().out.splitlines()
    copied = {str(path.relative_to(site)) for path in site.rglob("*") if path.is_file()}
    assert {line.removeprefix(f"wrote {site}/") for line in wrote} == copied
    assert all((site / each).read_bytes() == (SITES / name / each).read_bytes() for each in copied)
    assert then.startswith("next: ")
    assert str(site) in then
    if name == "lab":
        assert copied == {"group_vars/all.yml"}
    else:
        assert "hosts.yml" in copied
        assert run(["check", str(site)]) == ExitCode.OK


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--from", "nope", "new"], "is not one of 'prod', 'ib', 'dgx', 'lab'"),
        (["--from", "ib", "there"], "there exists and is not empty"),
        (["--from", "ib", "new", "--gpus", "8"], "--from and --gpus exclude each other"),
        (["--from", "ib", "new", "--subnet", "none"], "--from and --subnet exclude each other"),
    ],
)
def test_copy_that_cannot_be_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    says: str,
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    (tmp_path / "there/mine").touch()
    assert run(["init", *words]) == ExitCode.USAGE
    assert says in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["mine", "there"]
