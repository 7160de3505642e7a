"""The agent as a process: its protocol, its end, the Pythons it needs, the shell it leaves out."""

from __future__ import annotations

import ast
import shlex
import signal
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis.strategies import text
from tests.unit.helpers.local_node import here
from tests.unit.helpers.waiting import has_ended

from rdmaprov.probe.agent import words
from rdmaprov.probe.connection import AGENT, Answer, Command
from rdmaprov.probe.probe import Probe


def test_agent_ends_with_its_controller_and_ends_what_it_runs(tmp_path):
    pid = tmp_path / "pid"
    request = Command(f"echo $$ >{pid}; exec sleep 600", 600).request(1)
    agent = subprocess.Popen(
        [sys.executable, "-I", "-S", str(AGENT), "MARK"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert agent.stdin
    assert agent.stdout
    agent.stdin.write(request)
    agent.stdin.flush()
    while not (pid.is_file() and pid.read_text().strip()):
        assert agent.poll() is None
    agent.stdin.close()
    assert agent.wait(timeout=30) == 0
    agent.stdout.close()
    assert has_ended(pid)


def is_python_3_6(source: str) -> bool:
    """Return whether Python 3.6 reads a source."""
    try:
        ast.parse(source, feature_version=(3, 6))
    except SyntaxError:
        return False
    return True


def test_agent_needs_no_python_newer_than_3_6():
    assert is_python_3_6(AGENT.read_text())
    assert not is_python_3_6("(newer := 1)")  # so it can tell


def test_agent_starts_processes_where_python_has_no_posix_spawn(monkeypatch, tmp_path):
    old = tmp_path / "agent.py"
    old.write_bytes(b"import os\ndel os.posix_spawn\n" + AGENT.read_bytes())
    monkeypatch.setattr("rdmaprov.probe.probe.AGENT", old)
    probe = Probe({"n1": here()})
    counted = Command("wc -c; echo err >&2; kill -PIPE $$", 10, b"x" * 300_000)
    answer = probe.run_all({"n1": counted})["n1"]
    probe.close()
    assert answer == Answer(-signal.SIGPIPE, "300000\n", "err\n")


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("cat /proc/version", ["cat", "/proc/version"]),
        ("/usr/sbin/sysctl -n kernel.pid_max", ["/usr/sbin/sysctl", "-n", "kernel.pid_max"]),
        ("dpkg-query -f '${Status}' -W bash", ["dpkg-query", "-f", "${Status}", "-W", "bash"]),
        ("ls '/a b' ''", ["ls", "/a b", ""]),
        ("test -e /etc", []),
        ("echo a", []),
        ("cat /etc/*", []),
        ("cat ~/a", []),
        ("cat a b'c d'", []),
        ("cat 'a'b", []),
        ("cat 'a", []),
        ("cat $HOME", []),
        ("cat a|cat", []),
        ("cat a\nid", []),
        ("LC_ALL=C ls", []),
        ("'cat' a", []),
        ("", []),
    ],
)
def test_shell_is_left_out_only_where_it_has_nothing_to_do(command, found):
    assert words(command.encode()) == [word.encode() for word in found]


@given(text(alphabet="catid /.-='\"$*~#;\n", max_size=30))
def test_words_are_those_that_a_shell_finds(command):
    found = words(command.encode())
    assert not found or found == [word.encode() for word in shlex.split(command)]


def test_requests_may_arrive_in_any_pieces():
    texts = [f"printf '%0{size}d' {size}; echo {size} >&2; cat" for size in range(1, 60)]
    requests = b"".join(
        Command(text, 10, b"\n" * number).request(number) for number, text in enumerate(texts)
    )
    argv = [sys.executable, "-I", "-S", str(AGENT), "MARK"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as agent:
        assert agent.stdin
        assert agent.stdout
        with open(agent.stdout.fileno(), "rb", closefd=False) as said:
            assert [said.readline(), said.readline()] == [b"\n", b"MARK\n"]
            for start in range(0, len(requests), 7):
                agent.stdin.write(requests[start : start + 7])
            seen = {}
            for _ in texts:
                number, status, out, err = map(int, said.readline().split())
                seen[number] = (status, said.read(out), said.read(err))
        agent.stdin.close()
    assert seen == {
        number: (0, b"%0*d" % (number + 1, number + 1) + b"\n" * number, b"%d\n" % (number + 1))
        for number in range(len(texts))
    }
