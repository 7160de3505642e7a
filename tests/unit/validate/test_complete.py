"""A shell completes roles, hosts and groups of the site, and runs."""

from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from tests.unit.helpers.sites import GOOD, write

from rdmaprov.cli import cli

HOSTS = "---\nnodes:\n  hosts:\n    gpu[1:2]: {unit: 1}\nspare:\n  hosts:\n    gpu9: {unit: 9}\n"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write(tmp_path / "site", {**GOOD, "hosts.yml": HOSTS})
    monkeypatch.chdir(tmp_path)
    return tmp_path


def completed(*words: str) -> list[str]:
    *before, incomplete = words
    shell = ShellComplete(cli, {}, "rdmaprov", "_RDMAPROV_COMPLETE")
    return [found.value for found in shell.get_completions(before, incomplete)]


@pytest.mark.parametrize("verb", ["apply", "plan"])
def test_roles(verb: str):
    assert completed(verb, "site", "--roles", "m") == ["mlx5", "mtu"]
    assert completed(verb, "site", "--roles", "mtu,nc") == ["mtu,nccl"]


@pytest.mark.parametrize(
    "verb", ["accept", "apply", "check", "discover", "plan", "record", "validate"]
)
def test_hosts_and_groups(verb: str):
    assert completed(verb, "site", "--limit", "gpu") == ["gpu1", "gpu2", "gpu9"]
    assert completed(verb, "site", "--limit", "spare,!gpu9,!n") == ["spare,!gpu9,!nodes"]


@pytest.mark.parametrize("hosts", ["---\n[", "---\nnodes: {hosts: {n1: }}}\n", ""])
def test_wrong_site_completes_nothing(place: Path, hosts: str, capfd: pytest.CaptureFixture[str]):
    (place / "site/hosts.yml").write_text(hosts)
    assert completed("check", "site", "--limit", "gpu") == []
    assert completed("check", "nowhere", "--limit", "gpu") == []
    assert capfd.readouterr() == ("", "")


def test_runs_newest_first(place: Path):
    names = ["20261121-091200-plan", "20261122-070000-apply", "20261122-070000-apply-2"]
    for name in names:
        (place / "runs" / name).mkdir(parents=True)
    assert completed("report", "2026112") == names[::-1]
    assert completed("report", "20261121") == names[:1]
