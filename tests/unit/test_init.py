"""A new site is a good one."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from click.testing import CliRunner

from rdmaprov.cli import run
from rdmaprov.cli.init import init
from rdmaprov.exit_codes import ExitCode
from rdmaprov.inventory import load_site

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
