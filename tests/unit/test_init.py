"""A new site is a good one."""

from __future__ import annotations

import io
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from rdmaprov.cli import run
from rdmaprov.cli.init import REFERENCES, init
from rdmaprov.exit_codes import ExitCode
from rdmaprov.inventory import load_site

SITES = Path(__file__).parents[2] / "inventory"
ROCE = ["--kind", "roce", "--nodes", "gpu[01:16],spare1", "--rails", "ens1,ens2", "--gbps", "400"]
IB = ["--kind", "infiniband", "--nodes", "ib1", "--rails", "0000:18:00.0,0000:40:00.0"]


@pytest.mark.parametrize(
    ("flags", "nodes", "gpus"),
    [
        ([*ROCE, "--gpus", "8", "--subnet", "10.4.0.0/16"], 17, ((0, 1, 2, 3), (4, 5, 6, 7))),
        ([*ROCE, "--gpus", "0"], 17, ((), ())),
        ([*ROCE, "--gpus", "1", "--user", "ops"], 17, ((0,), (0,))),
        ([*IB, "--gbps", "400", "--gpus", "2"], 1, ((0,), (1,))),
    ],
    ids=["addresses", "no-gpus", "one-gpu", "infiniband"],
)
def test_written_site_passes_check(
    tmp_path: Path, flags: list[str], nodes: int, gpus: tuple[tuple[int, ...], ...]
):
    site = tmp_path / "new"
    assert run(["init", str(site), *flags]) == ExitCode.OK
    assert run(["check", str(site)]) == ExitCode.OK
    fleet = load_site(site)
    assert len(fleet.nodes) == nodes
    assert tuple(rail.gpus for rail in fleet.nodes[0].rails) == gpus


def test_addresses_follow_the_subnet(tmp_path: Path):
    site = tmp_path / "new"
    run(["init", str(site), *ROCE, "--gpus", "0", "--subnet", "10.4.0.0/16"])
    last = load_site(site).nodes[-1]
    assert [str(rail.address) for rail in last.rails] == ["10.4.0.17/24", "10.4.1.17/24"]


def test_questions_are_asked_for_missing_flags(tmp_path: Path):
    answers = "roce\ngpu[1:2]\nens1\n100\n0\n"
    done = CliRunner().invoke(init, [str(tmp_path / "new")], input=answers)
    assert done.exit_code == 0, done.output
    assert len(load_site(tmp_path / "new").nodes) == 2


def test_wrong_answer_is_asked_for_again_and_no_other_is_lost(tmp_path: Path):
    answers = "roce\ngpu[01-02]\ngpu[1:2]\nmlx5_0\nens1\n300\n100\nmany\n0\n"
    done = CliRunner().invoke(init, [str(tmp_path / "new")], input=answers)
    assert done.exit_code == 0, done.output
    for wrong in ("'gpu[01-02]' is", "'mlx5_0' is", "no rail has 300 Gb/s", "'many' is"):
        assert f"Error: {wrong}" in done.output
    assert len(load_site(tmp_path / "new").nodes) == 2


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("given", [[], ["--subnet", "none"]], ids=["default", "none"])
def test_rails_have_no_addresses_unless_a_network_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, terminal: bool, given: list[str]
):
    stdin = SimpleNamespace(isatty=lambda: terminal)
    monkeypatch.setattr("rdmaprov.cli.init.sys", SimpleNamespace(stdin=stdin))
    words = [str(tmp_path / "new"), *ROCE, "--gpus", "0", *given]
    done = CliRunner().invoke(init, words, input="\n")
    assert done.exit_code == 0, done.output
    assert ("or none [none]:" in done.output) is (terminal and not given)
    assert {rail.address for rail in load_site(tmp_path / "new").nodes[0].rails} == {None}


@pytest.mark.parametrize(("user", "sudo"), [("root", False), ("ops", True)])
def test_sudo_is_for_users_other_than_root(tmp_path: Path, user: str, sudo: bool):
    run(["init", str(tmp_path / "new"), *ROCE, "--gpus", "0", "--user", user])
    text = (tmp_path / "new/group_vars/all.yml").read_text()
    assert f"ansible_user: {user}\n" in text
    assert ("ansible_become: true\n" in text) is sudo


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
        (["--from", "nope", "new"], "is not one of 'prod', 'ib', 'lab'"),
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


def test_no_answer_is_a_usage_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr("sys.stdin", io.StringIO("roce\n"))
    assert run(["init", str(tmp_path / "new")]) == ExitCode.USAGE
    assert "see: rdmaprov init --help" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    "change",
    [
        ["--gbps", "300"],
        ["--gbps", "56"],
        ["--nodes", "-oProxyCommand=x"],
        ["--nodes", "n[1:999]"],
        ["--nodes", ","],
        ["--rails", "mlx5_0"],
        ["--rails", "ens1,ens1"],
        ["--subnet", "10.0.0.0/24"],
        ["--subnet", "rails"],
        ["--user", "-l"],
        ["--nodes", "gpu1,gpu[1:2]"],
    ],
    ids=lambda change: change[1],
)
def test_wrong_facts_are_refused_and_leave_nothing(tmp_path: Path, change: list[str]):
    site = tmp_path / "new"
    assert run(["init", str(site), *ROCE, "--gpus", "0", *change]) == ExitCode.USAGE
    assert not site.exists()


def test_nothing_is_written_over(tmp_path: Path):
    (tmp_path / "hosts.yml").write_text("mine\n")
    assert run(["init", str(tmp_path), *ROCE, "--gpus", "0"]) == ExitCode.USAGE
    assert (tmp_path / "hosts.yml").read_text() == "mine\n"
    assert list(tmp_path.iterdir()) == [tmp_path / "hosts.yml"]
