"""What moves is on a terminal's standard error and nowhere else; how much is said is a choice."""

import contextlib
import io
import os
import pty
import re
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import pytest
from rich.console import Console
from tests.program import ended, fork, start
from tests.unit.helpers import sites

from rdmaprov import terminal
from rdmaprov.apply.events import Change, NodeEvent
from rdmaprov.apply.progress import ApplyProgress
from rdmaprov.apply.results import NodeResult
from rdmaprov.exit_codes import ExitCode
from rdmaprov.runs.masks import Mask
from rdmaprov.runs.screen import Screen
from rdmaprov.terminal import Meter
from rdmaprov.verbosity import Verbosity

LOCAL = (
    "---\nnodes:\n  hosts:\n"
    "    n1: {unit: 1, ansible_connection: local}\n    n2: {unit: 2, ansible_connection: local}\n"
)
TESTS = (
    "def test_passes(node):\n    assert node.name\n\n\n"
    'def test_fails(node):\n    assert node.name == "n1", "wrong"\n'
)


@dataclass(frozen=True)
class Seen:
    code: int
    terminal: str
    piped: str


def on_terminal(words, place, *, piped="", at_once=False, **environment):
    """Run rdmaprov on a terminal, save the stream that is piped; what moves does so at once."""
    ours, theirs = pty.openpty()
    delay_s = 0 if at_once else terminal.DELAY_S
    with (
        Path(os.devnull).open() as nothing,
        tempfile.TemporaryFile() as pipe,
        mock.patch.object(terminal, "DELAY_S", delay_s),
    ):
        out = pipe.fileno() if piped == "stdout" else theirs
        shown = {"TERM": "xterm-256color", "COLUMNS": "150", **environment}
        process = fork(words, place, (nothing.fileno(), out, theirs), shown)
        os.close(theirs)
        seen = b""
        with contextlib.suppress(OSError):  # a terminal whose other end is closed
            while chunk := os.read(ours, 65536):
                seen += chunk
        os.close(ours)
        code = ended(process)
        pipe.seek(0)
        return Seen(code, seen.decode(), pipe.read().decode())


@pytest.fixture
def place(tmp_path):
    sites.write(tmp_path / "site", {**sites.GOOD, "hosts.yml": LOCAL})
    (tmp_path / "test_own.py").write_text(TESTS)
    return tmp_path


COUNTS = re.compile(r"validating, [1-4] of 4 checks, (1 with problems, )?0:0[0-9]")


def test_validate_moves_on_the_terminal(place):
    seen = on_terminal(["validate", "site", "test_own.py"], place, at_once=True)
    assert seen.code == ExitCode.FAILED
    assert COUNTS.search(seen.terminal), seen.terminal
    assert "2 nodes: 1 passed, 1 failed (n2); 3 checks passed, 1 failed" in seen.terminal


def test_validate_moves_on_standard_error_while_the_rest_goes_into_a_pipe(place):
    seen = on_terminal(["validate", "site", "test_own.py"], place, piped="stdout", at_once=True)
    assert COUNTS.search(seen.terminal), seen.terminal
    assert "validating" not in seen.piped
    assert "\x1b" not in seen.piped
    assert "2 nodes: 1 passed, 1 failed (n2); 3 checks passed, 1 failed" in seen.piped


@pytest.mark.parametrize(
    ("words", "environment"),
    [
        (["validate", "site", "test_own.py", "-v"], {}),
        (["--quiet", "validate", "site", "test_own.py"], {}),
        (["validate", "site", "test_own.py"], {"TERM": "dumb"}),
    ],
)
def test_nothing_moves_where_it_is_not_wanted(place, words, environment):
    seen = on_terminal(words, place, at_once=True, **environment)
    assert seen.code == ExitCode.FAILED
    assert "validating" not in seen.terminal


def test_pipe_gets_nothing_that_moves_and_no_colour(place):
    """FORCE_COLOR, which many CI systems set, makes no terminal of a pipe."""
    words = ("validate", "site", "test_own.py", "-k", "passes")
    done = start(*words, cwd=place, FORCE_COLOR="", TTY_COMPATIBLE="1")
    assert (done.returncode, done.stderr) == (ExitCode.OK, "")
    assert "\x1b" not in done.stdout
    assert "2 nodes: 2 passed; 2 checks passed" in done.stdout


@pytest.mark.parametrize(("no_colour", "coloured"), [("", True), ("1", False)])
@pytest.mark.parametrize("words", [["check", "site"], ["chekc", "site"]])
def test_colour_is_left_out_when_that_is_wished(place, words, no_colour, coloured):
    sites.write(place / "site", {"group_vars/nodes.yml": "---\nfabric_mtu_bytes: 1500\n"})
    assert ("\x1b[" in on_terminal(words, place, NO_COLOR=no_colour).terminal) is coloured


VALID = "site: 2 nodes, 0 problems\r\n"


def test_quiet_and_verbose_of_check(place):
    assert on_terminal(["check", "site"], place).terminal == VALID
    assert on_terminal(["check", "site", "--verbose"], place).terminal == VALID
    assert on_terminal(["-q", "check", "site"], place) == Seen(0, "", "")


def test_verbose_plan_says_what_ansible_says(place):
    hosts = LOCAL.replace("local}", "ssh, ansible_host: 127.0.0.1, ansible_port: 1}")
    sites.write(place / "site", {"hosts.yml": hosts})
    said = {
        word: on_terminal(["plan", "site", *word.split()], place, piped="stdout").piped
        for word in ("", "--verbose", "--quiet")
    }
    assert "TASK [" in said["--verbose"]
    assert "TASK [" not in said[""]
    assert ": unreachable: ssh: connection refused" in said[""]
    # The result alone: the nodes together, and not one by one.
    assert "n1: unreachable" not in said["--quiet"]
    assert "2 nodes: 2 unreachable" in said["--quiet"]


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_meter_shows_counts_and_elapsed_time(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setenv("TERM", "xterm-256color")
    moving = Meter(terminal.progress_console(file=Terminal()), "probing", 1024)
    now[0] += 75
    moving.advance()
    moving.advance(bad=True)
    assert moving.text() == "probing, 2 of 1,024 nodes, 1 with problems, 1:15"


def test_short_work_moves_nothing(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    file = Terminal()
    with Meter(terminal.progress_console(file=file), "probing", 2) as moving:
        moving.advance()
    assert file.getvalue() == ""


def test_meter_is_nothing_where_nothing_moves():
    file = io.StringIO()
    with Meter(terminal.progress_console(file=file), "probing", 2) as moving:
        moving.advance()
        assert moving.console is None
    assert file.getvalue() == ""


@pytest.mark.parametrize("verbosity", list(Verbosity))
def test_thousand_nodes_that_fail_alike_are_not_a_thousand_lines(verbosity):
    out = io.StringIO()
    screen = Screen(Console(file=out), Mask(()), verbosity)
    names = [f"gpu{number:04}" for number in range(1000)]
    change = Change("running", "ens1", "MTU", "1500", "9000")
    progress = ApplyProgress(screen, "apply", len(names))
    with progress.meter:
        for name in names:
            node = NodeResult(name)
            progress.show_event(NodeEvent("started", name, "mtu", ""), node)
            progress.show_event(
                NodeEvent("done", name, "mtu", "", changed=True, changes=(change,)), node
            )
            progress.show_event(
                NodeEvent("unreachable", name, "mtu", "", message=f"{name}: lost"), node
            )
    lines = len(out.getvalue().splitlines())
    assert lines == {Verbosity.QUIET: 0, Verbosity.NORMAL: 1, Verbosity.VERBOSE: 2000}[verbosity]
