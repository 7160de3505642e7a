"""The program as a whole: version, help, completion, and errors that are never tracebacks."""

import errno
import os
import signal
import sys
from pathlib import Path

import click
import pytest
from tests.program import call, start

import rdmaprov
from rdmaprov import cli
from rdmaprov.errors import RdmaprovError, UnreachableError, UsageError
from rdmaprov.exit_codes import ExitCode

NOWHERE = (ExitCode.INVALID_SITE, "error: nowhere: no such directory")
FULL = "No space left on device"
FREE_SPACE = "Free space there, then run the same command again."
OTHER = "Name another file or directory, or allow it."
FLOOR = "floor --nodes=2 --gpus-per-node=8 --rails=8 --link-gbps=400 --size=8G"
NO_OPTION = "error: No such option '--no-such'. Did you mean '--nodes'?"
# Of each verb: cheap words, how it ends, its first line. All else that a verb prints and refuses
# is tested by calls, which this test compares with a start.
STARTS = {
    "accept": ("nowhere", *NOWHERE),
    "apply": ("nowhere", *NOWHERE),
    "certificate": ("check nowhere n1", *NOWHERE),
    "check": ("nowhere", *NOWHERE),
    "compare": ("a b", ExitCode.USAGE, "error: a: there is no such run"),
    "compile": (
        "nowhere --out out --key key",
        ExitCode.USAGE,
        "error: Invalid value for '--key': File 'key' does not exist.",
    ),
    "completion": ("bash", ExitCode.OK, "_rdmaprov_completion() {"),
    "discover": ("nowhere", *NOWHERE),
    "dossier": ("nowhere n1", ExitCode.USAGE, "error: nowhere: there is no such run"),
    "explain": (FLOOR, ExitCode.OK, "2 nodes, 8 × 400G: ceiling 400 GB/s, floor 339 GB/s at 8 GiB"),
    "history": ("nowhere", ExitCode.USAGE, "error: runs/ has no run of nowhere"),
    "init": ("new --no-such", ExitCode.USAGE, NO_OPTION),
    "lab": ("--dir none status", ExitCode.OK, "There is no lab. Run: rdmaprov lab up"),
    "merge": ("a b", ExitCode.USAGE, "error: a: there is no such run"),
    "plan": ("nowhere", *NOWHERE),
    "record": ("nowhere --limit n1", *NOWHERE),
    "replace": ("nowhere n1", *NOWHERE),
    "report": ("nowhere", ExitCode.USAGE, "error: nowhere: there is no such run"),
    "revert": ("nowhere 20260101-000000-apply", *NOWHERE),
    "schedule": ("nowhere --directory .", *NOWHERE),
    "schema": ("", ExitCode.OK, "fabric_node: bool; default true"),
    "subnet": ("nowhere", *NOWHERE),
    "tune": ("nowhere", *NOWHERE),
    "validate": ("nowhere", *NOWHERE),
    "watch": ("nowhere", *NOWHERE),
}


@pytest.mark.parametrize("verb", cli.VERBS)
def test_verb_works_as_a_process_as_it_does_when_called(tmp_path, verb):
    words, code, line = STARTS[verb]
    started, called = (run(verb, *words.split(), cwd=tmp_path) for run in (start, call))
    assert (started.returncode, (started.stdout + started.stderr).splitlines()[0]) == (code, line)
    ends = [(done.returncode, done.stdout, done.stderr) for done in (started, called)]
    assert ends[0] == ends[1]


def test_call_is_refused_settings_that_ansible_would_read_too_late(tmp_path):
    with pytest.raises(ValueError, match="use start"):
        call("schema", cwd=tmp_path, ANSIBLE_FORKS="1")
    (tmp_path / "ansible.cfg").touch()
    with pytest.raises(ValueError, match="use start"):
        call("schema", cwd=tmp_path)


def test_call_leaves_this_process_as_it_was(tmp_path):
    def state():
        return Path.cwd(), dict(os.environ), sys.stdout, sys.argv, signal.getsignal(signal.SIGTERM)

    before = state()
    assert call("schema", cwd=tmp_path, COLUMNS="7").returncode == ExitCode.OK
    assert state() == before


def rdmaprov_(*words, **environment):
    return call(*words, cwd=Path("/"), HOME="/nonexistent", **environment)


def test_version_is_the_package_s():
    assert rdmaprov_("--version").stdout == f"rdmaprov, version {rdmaprov.__version__}\n"


def test_help_names_every_verb():
    said = rdmaprov_("--help").stdout
    assert all(f"\n  {verb} " in said for verb in cli.VERBS)


def test_help_groups_verbs_by_task_in_one_column():
    lines = rdmaprov_("--help").stdout.splitlines()
    shown = {line[:-1] for line in lines if line.endswith(":") and line[:1].isalpha()}
    assert shown == {"Options", *cli.TASKS}
    rows = [line for line in lines if line.split(" ")[2:3] and line.split()[0] in cli.VERBS]
    assert len({len(row) - len(row[14:].lstrip()) for row in rows}) == 1


@pytest.mark.parametrize("words", [("apply",), ("certificate", "verify")])
def test_help_on_a_verb_is_its_own_help(words):
    assert rdmaprov_("help", *words).stdout == rdmaprov_(*words, "--help").stdout


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
        (OSError(28, FULL, "/x"), 4, [f"error: /x: {FULL}", f"hint:  {FREE_SPACE}"]),
        (OSError(5, "Input/output error", "/x"), 1, ["error: /x: Input/output error"]),
        *(
            (OSError(number, "No.", "/x"), 2, ["error: /x: No.", f"hint:  {OTHER}"])
            for number in (errno.EACCES, errno.EROFS, errno.ENOENT, errno.ENOTDIR, errno.EISDIR)
        ),
    ],
)
def test_error_is_shown_as_lines_with_its_exit_code(monkeypatch, capsys, error, code, lines):
    @click.command()
    def fails():
        raise error

    monkeypatch.setattr(cli, "cli", fails)
    assert cli.run([]) == code
    # An interrupt first ends the line that the terminal shows ^C on.
    assert capsys.readouterr().err.lstrip().splitlines()[: len(lines)] == lines
