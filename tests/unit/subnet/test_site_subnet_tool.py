"""One tool on one host: its output, its end, its limits, and why it is not the whole truth."""

from __future__ import annotations

import gzip
import os
import time

import pytest
from tests.unit.helpers.subnet_texts import NO_PORT

from rdmaprov.site_subnet import tool
from rdmaprov.site_subnet.hosts import ThisMachine
from rdmaprov.site_subnet.tool import ToolOutput, failure, output_of

NO_MODULE = "ibwarn: [1] get_abi_version: can't read ABI version: is ib_umad module loaded?\n"


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Provide a function that puts a program into the PATH."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    def write(name, text):
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    return write


def test_output_of_a_tool_is_whole_with_its_exit_code_and_errors(program):
    program("sminfo", "printf 'one\\ntwo'; echo odd >&2; exit 3")
    assert ThisMachine().run(["sminfo"], 10) == ToolOutput("one\ntwo", "odd\n", 3)


def test_words_reach_the_tool_as_they_are(program):
    program("sminfo", 'for word; do echo "$word"; done')
    words = ["$(id)", "; id", "a b"]
    assert ThisMachine().run(["sminfo", *words], 10).text.splitlines() == words


def test_tool_that_is_not_installed_is_named():
    assert failure("no-such-tool", "n1", ThisMachine().run(["no-such-tool"], 10)) == (
        "no-such-tool is not installed on n1; install infiniband-diags there"
    )


def test_tool_that_hangs_ends_with_all_that_it_started(program, tmp_path):
    alive = tmp_path / "alive"
    os.mkfifo(alive)
    reader = os.open(alive, os.O_RDONLY | os.O_NONBLOCK)
    # What it starts keeps the pipe open as long as it lives.
    program("sminfo", f"exec 3>{alive}; sleep 60 & wait")
    started = time.monotonic()
    output = ThisMachine().run(["sminfo"], 0.5)
    assert failure("sminfo", "n1", output) == "sminfo on n1 gave no result: no answer within 0.5 s"
    os.set_blocking(reader, True)
    assert os.read(reader, 1) == b""
    os.close(reader)
    assert time.monotonic() - started < 30


@pytest.mark.parametrize(
    ("output", "says"),
    [
        (ToolOutput("text\n", "ibwarn: x", 0), ""),
        (ToolOutput("", NO_MODULE + NO_PORT, 255), "it has none; load the module ib_umad"),
        (ToolOutput("", NO_PORT, 255), "run as root there"),
        (ToolOutput("", "Query SA failed\n", 0), "printed nothing: Query SA failed"),
        (ToolOutput("half", "a\nb\x1b[31m\n", 1), "ended with code 1: half"),
        (ToolOutput("", "n1: its name does not resolve\n", None), "n1: its name does not resolve"),
        (ToolOutput("", "no answer\n", None), "dump_fts on n1 gave no result: no answer"),
    ],
)
def test_why_a_text_is_not_the_whole_truth(output, says):
    assert says in failure("dump_fts", "n1", output)
    assert "\x1b" not in failure("dump_fts", "n1", output)
    assert bool(failure("dump_fts", "n1", output)) == bool(says)


def test_output_that_is_too_large_or_not_compressed_is_refused(monkeypatch):
    monkeypatch.setattr(tool, "MOST_TEXT_BYTES", 1000)
    with pytest.raises(ValueError, match="exceeds"):
        output_of(0, gzip.compress(b"x" * 2000), "")
    with pytest.raises(ValueError, match="not compressed"):
        output_of(0, b"plain", "")
