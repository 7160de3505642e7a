"""The program as a whole: version, help, completion, and errors that are never tracebacks."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest

import rdmaprov
from rdmaprov import cli
from rdmaprov.errors import RdmaprovError, UnreachableError, UsageError
from rdmaprov.exit_codes import ExitCode


def rdmaprov_(*words, **environment):
    return subprocess.run(
        [sys.executable, "-m", "rdmaprov", *words],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", **environment},
    )


def test_version_is_the_package_s():
    assert rdmaprov_("--version").stdout == f"rdmaprov, version {rdmaprov.__version__}\n"


def test_help_names_every_verb():
    said = rdmaprov_("--help").stdout
    assert all(f"\n  {verb} " in said for verb in cli.VERBS)


def test_no_verb_shows_the_help_and_is_a_usage_error():
    done = rdmaprov_()
    assert done.returncode == ExitCode.USAGE
    assert "Usage: rdmaprov" in done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script_calls_the_program(shell):
    assert "_RDMAPROV_COMPLETE" in rdmaprov_("completion", shell).stdout


def test_completion_completes_verbs():
    done = rdmaprov_(_RDMAPROV_COMPLETE="bash_complete", COMP_WORDS="rdmaprov la", COMP_CWORD="1")
    assert "plain,lab" in done.stdout


@pytest.mark.parametrize(
    ("error", "code", "lines"),
    [
        (RdmaprovError("a node failed", "Look."), 1, ["error: a node failed", "hint:  Look."]),
        (UsageError("no such node", "Try n1."), 2, ["error: no such node", "hint:  Try n1."]),
        (UnreachableError("no answer", "Wait."), 4, ["error: no answer", "hint:  Wait."]),
        (KeyboardInterrupt(), 130, ["error: interrupted"]),
        (
            OSError(28, "No space left on device", "/x"),
            4,
            [
                "error: /x: No space left on device",
                "hint:  Free space there, then run the same command again.",
            ],
        ),
        (OSError(5, "Input/output error", "/x"), 1, ["error: /x: Input/output error"]),
    ],
)
def test_error_is_shown_as_lines_with_its_exit_code(monkeypatch, capsys, error, code, lines):
    @click.command()
    def fails():
        raise error

    monkeypatch.setattr(cli, "cli", fails)
    assert cli.run([]) == code
    # An interrupt first ends the line that the terminal shows ^C on.
    said = capsys.readouterr().err.lstrip().splitlines()
    assert said[: len(lines)] == lines


@pytest.mark.parametrize(
    "verb", ["accept", "apply", "check", "discover", "plan", "record", "validate"]
)
@pytest.mark.parametrize("pattern", ["", " ", ","])
def test_empty_limit_is_refused_and_is_not_the_whole_fleet(tmp_path, verb, pattern):
    """As an unset variable of a shell leaves it."""
    said = rdmaprov_(verb, str(tmp_path), "--limit", pattern)
    assert said.returncode == ExitCode.USAGE
    assert said.stderr.startswith(
        "error: Invalid value for '--limit': is empty; leave the option out to select all\n"
    )


def test_empty_hosts_are_refused_and_are_not_the_whole_fleet(tmp_path):
    said = rdmaprov_("validate", str(tmp_path), "--hosts", "")
    assert said.returncode == ExitCode.USAGE
    assert "'--hosts': is empty" in said.stderr


@pytest.mark.parametrize("verb", ["apply", "plan"])
def test_empty_list_of_roles_is_refused_and_is_not_all(tmp_path, verb):
    said = rdmaprov_(verb, str(tmp_path), "--roles", "")
    assert said.returncode == ExitCode.USAGE
    assert "'--roles': is empty" in said.stderr
