"""Where the program runs: without a home, a locale, a place for runs; with a broken ansible.cfg.

By hand, the same was seen as user 1234 without an entry in /etc/passwd, in a directory that is
not writable (setpriv, unshare).
"""

import os
import sys
from pathlib import Path

import pytest
from ansible.errors import AnsibleError
from tests.cli.test_newcomer import two_lines
from tests.program import call, start
from tests.unit.helpers import sites

from rdmaprov import tuning
from rdmaprov.errors import UsageError
from rdmaprov.exit_codes import ExitCode
from rdmaprov.probe.reasons import ssh_reason
from rdmaprov.probe.target import Target
from rdmaprov.runs.directory import RunDirectory
from rdmaprov.runs.masks import Mask
from rdmaprov.surroundings import home_for_ansible, is_of_settings, require_utf8, utf8_locale


@pytest.fixture
def site(tmp_path):
    """Provide the name of a good site; others cannot write its directory, or Ansible reads none."""
    tmp_path.chmod(0o700)
    sites.write(tmp_path / "site", sites.GOOD)
    return "site"


def test_home_that_cannot_be_written(site, tmp_path):
    done = start("check", site, cwd=tmp_path, HOME="/dev/null")
    assert (done.returncode, done.stderr) == (ExitCode.OK, "site: 2 nodes, 0 problems\n")


def test_ansible_gets_a_directory_only_where_it_has_none(monkeypatch, tmp_path):
    for name in ("ANSIBLE_LOCAL_TEMP", "ANSIBLE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with home_for_ansible():
        assert "ANSIBLE_LOCAL_TEMP" not in os.environ
    assert not list(tmp_path.iterdir())
    (tmp_path / ".ansible").touch()  # in place of a directory
    with home_for_ansible():
        assert Path(os.environ["ANSIBLE_LOCAL_TEMP"]).is_dir()
    assert "ANSIBLE_LOCAL_TEMP" not in os.environ


def test_user_without_a_home_and_a_name(monkeypatch):
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)  # a KeyError
    monkeypatch.setenv("ANSIBLE_HOME", "/tmp")  # noqa: S108 - nothing is written
    with home_for_ansible():
        assert Path.home() == Path("/")
    monkeypatch.setenv("HOME", "/")  # for monkeypatch to take back


def test_user_without_a_name_cannot_use_ssh():
    target = Target("n1", "n1", ("ssh", "n1"), "python3", 10)
    reason = ssh_reason("No user exists for uid 1234\r\n", target)
    assert reason is not None
    assert "no entry in /etc/passwd here" in reason.text


@pytest.mark.parametrize(
    ("name", "chosen"), [("C", "C.UTF-8"), ("xx_YY.UTF-8", "C.UTF-8"), ("C.UTF-8", None)]
)
def test_ansible_gets_a_locale_that_it_accepts(monkeypatch, name, chosen):
    monkeypatch.setenv("LC_ALL", name)
    assert utf8_locale().get("LC_ALL") == chosen


def test_other_encoding(monkeypatch):
    require_utf8()
    monkeypatch.setattr(sys, "getfilesystemencoding", lambda: "iso8859-1")
    with pytest.raises(UsageError, match="iso8859-1, and rdmaprov needs UTF-8"):
        require_utf8()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("broken\n", "Error reading config file"),
        ("[defaults]\nforks = some\n", "Config 'DEFAULT_FORKS'"),
    ],
)
def test_broken_ansible_cfg(site, tmp_path, text, said):
    (tmp_path / "ansible.cfg").write_text(text)
    code, error, hint = two_lines(start("check", site, cwd=tmp_path))
    assert (code, error[: len(said)]) == (ExitCode.USAGE, said)
    assert str(tmp_path / "ansible.cfg") in error
    assert "ansible.cfg" in hint


def test_wrong_setting_of_ssh_is_the_user_s_mistake(monkeypatch, tmp_path):
    monkeypatch.setenv("ANSIBLE_SSH_RETRIES", "some")
    with pytest.raises(AnsibleError, match="reconnection_retries") as raised:
        tuning.environment(1, tmp_path)
    assert is_of_settings(raised.value)


@pytest.mark.parametrize("place", ["/dev/null/runs", "/proc/self/fdinfo/runs"])
def test_directory_of_runs_that_cannot_be_written(site, tmp_path, place):
    done = call("plan", site, "--runs", place, cwd=tmp_path)
    code, error, hint = two_lines(done)
    assert (code, error.partition(": ")[0]) == (ExitCode.USAGE, place)
    assert hint == "Name another directory for runs: --runs DIR, or RDMAPROV_RUNS=DIR"


def test_runs_are_kept_elsewhere(monkeypatch, tmp_path):
    """By the option or the variable, and read there."""
    monkeypatch.setenv("RDMAPROV_RUNS", str(tmp_path / "kept"))
    run = RunDirectory("plan", Mask(())).path
    assert run.parent == tmp_path / "kept"
    monkeypatch.delenv("RDMAPROV_RUNS")
    done = call("report", "--runs", "kept", cwd=tmp_path)
    assert f"kept/{run.name}" in done.stdout + done.stderr
    assert "there is no run" in call("report", cwd=tmp_path).stderr
