"""The agent as a process: its protocol, its end, its Pythons; and nodes that answer oddly."""

import ast
import os
import shlex
import signal
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis.strategies import text
from tests.tables import cases
from tests.unit.helpers.local_node import here
from tests.unit.helpers.waiting import has_ended

from rdmaprov.probe.agent import words
from rdmaprov.probe.connection import AGENT, Answer, Command, Connection
from rdmaprov.probe.errors import NodeUnreachable
from rdmaprov.probe.probe import Probe
from rdmaprov.probe.session import Limits


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
    agent.stdin.write(b"".join(request))
    agent.stdin.flush()
    while not (pid.is_file() and pid.read_text().strip()):
        assert agent.poll() is None
    agent.stdin.close()
    assert agent.wait(timeout=30) == 0
    agent.stdout.close()
    assert has_ended(pid)


def is_python_3_6(source: str) -> bool:
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
    ("command", "found"), cases(__file__, "shell_is_left_out_only_where_it_has_nothing_to_do")
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
        part
        for number, text in enumerate(texts)
        for part in Command(text, 10, b"\n" * number).request(number)
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


def ask_agent(commands, limit_s=10, path=os.environ["PATH"]):
    requests = [Command(text, limit_s).request(number) for number, text in enumerate(commands)]
    argv = [sys.executable, "-I", "-S", str(AGENT), "MARK"]
    said = {}
    with subprocess.Popen(
        argv, env={"PATH": path}, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as agent:
        assert agent.stdin
        assert agent.stdout
        agent.stdin.write(b"".join(part for request in requests for part in request))
        agent.stdin.flush()
        assert [agent.stdout.readline(), agent.stdout.readline()] == [b"\n", b"MARK\n"]
        for _ in commands:
            number, status, *lengths = agent.stdout.readline().split()
            out, err = (agent.stdout.read(int(length)) for length in lengths)
            said[commands[int(number)]] = status, out, err
        agent.stdin.close()
    return said


SYSCTLS = ["kernel.ostype", "kernel.core_modes", "net.ipv4.tcp_rmem", "net.ipv4.conf.lo.arp_filter"]


@pytest.mark.parametrize(
    ("ask", "names"), cases(__file__, "names_asked_at_once_get_what_each_gets_alone")
)
def test_names_asked_at_once_get_what_each_gets_alone(ask, names):
    """Some are unknown, several, options; vm.stat_refresh says nothing."""
    commands = [f"{ask} {name}" for name in names]
    alone = [ask_agent([command]) for command in commands]
    assert ask_agent(commands) == {text: said for each in alone for text, said in each.items()}


@pytest.fixture
def slow_query(tmp_path):
    """Provide a dpkg-query that writes its arguments down, and hangs when asked of `bad`."""
    program = tmp_path / "dpkg-query"
    program.write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$*" >>{tmp_path}/asked\n'
        'case " $* " in *" bad "*) sleep 60;; esac\nshift 3; for name; do echo "$name = ok"; done\n'
    )
    program.chmod(0o755)
    return tmp_path


def test_many_names_start_one_program(slow_query):
    texts = [f"dpkg-query -f '${{Status}}' -W p{number}" for number in range(20)]
    said = ask_agent(texts, path=f"{slow_query}:{os.environ['PATH']}")
    assert said == dict.fromkeys(texts, (b"0", b"ok", b""))
    names = " ".join(f"p{number}" for number in range(20))
    assert (slow_query / "asked").read_text() == f"-f ${{Package}} = ${{Status}}\\n -W {names}\n"


def test_name_on_which_a_program_hangs_costs_no_other_its_answer(slow_query):
    good, bad = (f"dpkg-query -f '${{Status}}' -W {name}" for name in ("good", "bad"))
    said = ask_agent([good, bad], 1, f"{slow_query}:{os.environ['PATH']}")
    assert said == {good: (b"0", b"good = ok\n", b""), bad: (b"-", b"", b"no answer in 1 s")}


# What is no answer of the agent's, after a mark that is right. Each hung the run, or took memory.
LIES = cases(__file__, "lies")


def ask_again_and_again(probe, command):
    for _ in range(20):
        probe.run("n1", command, fresh=True)
        time.sleep(0.05)


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_node_that_does_not_answer_as_the_agent_is_unreachable(lie, tmp_path):
    """The last word of what starts it is its mark."""
    liar = tmp_path / "python3"
    liar.write_text(
        'for mark; do :; done; printf "\\n$mark\\n"; head -c 1 >/dev/null; sleep 0.2\n'
        f'printf "{lie}"; exec sleep 600\n'
    )
    probe = Probe({"n1": here(python=f"sh {liar}"), "n2": here("n2")}, Limits(command_s=5))
    began = time.monotonic()
    with pytest.raises(NodeUnreachable, match="n1: unexpected output on the connection"):
        ask_again_and_again(probe, "true")
    assert time.monotonic() - began < 5
    assert probe.run("n2", "echo hi").out == "hi\n"
    probe.close()


def test_banner_without_a_line_s_end_is_no_agent(tmp_path):
    """The reader refuses such a line with a ValueError, which nobody waited for."""
    liar = tmp_path / "python3"
    liar.write_text("head -c 1000000 /dev/zero | tr '\\0' x; exec sleep 600\n")
    probe = Probe({"n1": here(python=f"sh {liar}"), "n2": here("n2")}, Limits(command_s=5))
    with pytest.raises(NodeUnreachable, match="n1: unexpected output on the connection"):
        probe.run("n1", "true")
    assert probe.run("n2", "echo hi").out == "hi\n"
    probe.close()


def test_node_that_talks_on_is_hung_up_on(tmp_path):
    """It cost a run its processor until the end."""
    liar, told = tmp_path / "python3", tmp_path / "told"
    liar.write_text(
        'for mark; do :; done; printf "\n$mark\n"; head -c 1 >/dev/null; sleep 0.2\n'
        f"yes 0 0 0 0; echo $? > {told}; exec sleep 600\n"
    )
    probe = Probe({"n1": here(python=f"sh {liar}")}, Limits(command_s=5))
    with pytest.raises(NodeUnreachable, match="n1: unexpected output on the connection"):
        ask_again_and_again(probe, "true")
    end = time.monotonic() + 10
    while not told.exists() or not told.read_text():
        assert time.monotonic() < end, "the run still reads what it says"
        time.sleep(0.05)
    probe.close()


def test_node_that_never_stops_talking_is_unreachable(monkeypatch):
    monkeypatch.setattr(Connection, "most_bytes", 1_000_000)
    probe = Probe({"n1": here()})
    with pytest.raises(NodeUnreachable, match="n1: unexpected output on the connection"):
        ask_again_and_again(probe, "head -c 100000 /dev/zero")
    probe.close()


def test_connection_that_does_not_end_is_killed(monkeypatch):
    monkeypatch.setattr("rdmaprov.probe.link.END_S", 0.2)
    stubborn = "trap '' TERM; eval \"$0\"; while :; do sleep 1; done"
    probe = Probe({"n1": here(argv=("/bin/sh", "-c", stubborn))})
    assert probe.run("n1", "echo hi").out == "hi\n"
    began = time.monotonic()
    probe.close()
    assert time.monotonic() - began < 5
