"""Commands over the probe: real processes, real ssh."""

import os
import signal
import sys
import threading

import pytest
from tests.tables import cases
from tests.unit.helpers.local_node import here
from tests.unit.helpers.shell import execute
from tests.unit.helpers.waiting import has_ended

from rdmaprov.probe.connection import Answer, Command, open_connection
from rdmaprov.probe.errors import NoAnswer, NodeUnreachable
from rdmaprov.probe.probe import Probe
from rdmaprov.probe.session import Limits

pytestmark = pytest.mark.waits


@pytest.fixture
def probe():
    with_nodes = Probe({name: here(name) for name in ("n1", "n2", "n3")})
    yield with_nodes
    with_nodes.close()


def test_answer_has_status_and_each_byte_of_the_output(probe):
    answer = probe.run("n1", "echo out; echo err >&2; exit 3")
    assert (answer.rc, answer.out, answer.err) == (3, "out\n", "err\n")
    answer = probe.run("n1", r"printf '\377\303\244'")
    assert answer.out.encode("utf-8", "surrogateescape") == b"\xff\xc3\xa4"


def test_command_reads_its_own_input_and_not_the_requests(probe):
    assert probe.run("n1", "cat").out == ""
    assert probe.run_all({"n1": Command("wc -c", 10, b"x" * 300_000)})["n1"].out.strip() == "300000"


def test_same_command_runs_once_unless_asked_afresh(probe, tmp_path):
    count = f"echo x >>{tmp_path}/runs; wc -l <{tmp_path}/runs"
    assert [probe.run("n1", count).out.strip() for _ in range(3)] == ["1"] * 3
    assert probe.run("n1", count, fresh=True).out.strip() == "2"
    probe.live = True
    assert probe.run("n1", count).out.strip() == "3"


def test_commands_of_the_first_node_are_fetched_from_all_others(probe, tmp_path):
    mark = f"touch {tmp_path}/$PPID"  # of the agent: one for each node
    probe.run("n1", mark)
    assert len(list(tmp_path.iterdir())) == 1
    probe.run("n2", mark)
    probe.run("n3", "true")
    probe.run("n3", mark)
    assert len(list(tmp_path.iterdir())) == 3


def test_command_that_takes_long_begins_on_all_nodes_at_once(probe, tmp_path):
    """The first node waits for no other, nor they for it: each waits until all three have begun."""
    wait = f"touch {tmp_path}/$PPID; until [ $(ls {tmp_path} | wc -l) = 3 ]; do sleep 0.05; done"
    for name in ("n1", "n2", "n3", "n1"):
        probe.begin(wait, 20)
        assert probe.run(name, wait, limit_s=20).rc == 0


def test_slow_command_is_ended_with_its_children_and_costs_only_itself(probe, tmp_path):
    pid = tmp_path / "pid"
    with pytest.raises(NoAnswer, match=r"^n1: no answer in 0.3 s, nor in 0.3 s more: sleep 600"):
        probe.run("n1", f"sleep 600 & echo $! >{pid}; wait", limit_s=0.3)
    assert probe.run("n1", "echo alive", fresh=True).out == "alive\n"
    assert has_ended(pid)


def test_output_without_end_is_refused(probe):
    with pytest.raises(NoAnswer, match="output exceeds"):
        probe.run("n1", "yes")


def test_banner_before_the_agent_is_passed_over():
    script = "echo Welcome; printf 'no newline'; eval \"$0\""
    probe = Probe({"n1": here(argv=("/bin/sh", "-c", script))})
    assert probe.run("n1", "echo hi").out == "hi\n"
    probe.close()


def test_no_file_is_written_on_the_node():
    """So a full disk, /tmp included, is no obstacle."""
    script = 'ulimit -f 0; cd /; export TMPDIR=/nowhere; eval "$0"'
    probe = Probe({"n1": here(argv=("/bin/sh", "-c", script))})
    assert probe.run("n1", "cat", fresh=True).rc == 0
    assert probe.run("n1", "echo x >$HOME/never").rc != 0
    probe.close()


@pytest.mark.parametrize(
    ("script", "says"), cases(__file__, "connection_that_does_not_come_to_be_has_its_reason")
)
def test_connection_that_does_not_come_to_be_has_its_reason(script, says):
    probe = Probe({"n1": here(argv=("/bin/sh", "-c", script)), "n2": here("n2")})
    with pytest.raises(NodeUnreachable, match=says) as refused:
        probe.run("n1", "true")
    assert "\n" not in str(refused.value)
    assert probe.run("n2", "echo hi").out == "hi\n"
    probe.close()


def test_connection_that_says_nothing_ends_at_its_limit(monkeypatch):
    monkeypatch.setattr("rdmaprov.probe.connection._START_S", 0)
    probe = Probe({"n1": here(argv=("/bin/sh", "-c", "exec sleep 600"), connect_s=1)})
    with pytest.raises(NodeUnreachable, match="n1: no answer in 1 s, nor in 1 s more"):
        probe.run("n1", "true")
    probe.close()


def test_node_that_dies_in_between_is_unreachable_from_then_on(probe):
    with pytest.raises(NodeUnreachable, match="n1: the connection ended"):
        probe.run("n1", "kill -9 $PPID")
    with pytest.raises(NodeUnreachable, match="n1: the connection ended"):
        probe.run("n1", "true")
    assert probe.run("n2", "echo hi").out == "hi\n"


def test_node_that_is_stuck_is_unreachable_and_others_are_not(monkeypatch, tmp_path):
    monkeypatch.setattr("rdmaprov.probe.session._GRACE_S", 0)
    pid = tmp_path / "agent"
    hang = f'if [ -e "$HANG" ]; then echo $PPID $$ >{pid}; kill -STOP $PPID $$; fi'
    stuck = here("n2", argv=("/bin/sh", "-c", 'export HANG=/; eval "$0"'))
    probe = Probe({"n1": here(), "n2": stuck, "n3": here("n3")}, Limits(command_s=0.1, node_s=0.5))
    probe.run("n1", hang)
    with pytest.raises(
        NodeUnreachable, match=r"1 of 1 commands did not answer in 0.5 s, nor in 0.5 s more"
    ):
        probe.run("n2", hang)
    assert probe.run("n3", hang).rc == 0
    for process in pid.read_text().split():
        os.kill(int(process), signal.SIGKILL)
    probe.close()


def test_limit_of_a_command_holds_where_it_is_fetched_too(probe):
    probe.run("n1", "true")
    with pytest.raises(NoAnswer, match=r"n1: no answer in 0.2 s, nor in 0.2 s more"):
        probe.run("n1", "sleep 600", limit_s=0.2)
    with pytest.raises(NoAnswer, match=r"n2: no answer in 0.2 s, nor in 0.2 s more"):
        probe.run("n2", "sleep 600", limit_s=0.2)


def test_bound_of_open_connections_is_kept_and_a_miss_connects_again():
    probe = Probe({name: here(name) for name in ("n1", "n2", "n3")}, Limits(open=2))
    probe.run("n1", "echo a")
    assert probe.run("n2", "echo a").out == "a\n"
    assert probe.run("n3", "echo a").out == "a\n"
    assert probe.run("n3", "echo b").out == "b\n"
    probe.close()


def test_no_more_connections_are_open_than_allowed(monkeypatch):
    opened, most = [], []

    async def count(*given):
        connection = await open_connection(*given)
        opened.append(connection)
        most.append(sum(not each.has_failed for each in opened))
        return connection

    monkeypatch.setattr("rdmaprov.probe.ways.open_connection", count)
    names = [f"n{index}" for index in range(7)]
    probe = Probe({name: here(name) for name in names}, Limits(open=3))
    for word in ("a", "b"):
        answers = probe.run_all({name: Command(f"echo {word}", 10) for name in names})
        assert [getattr(answers[name], "out", "") for name in names] == [f"{word}\n"] * 7
    assert probe.run("n0", "echo c").out == probe.run("n6", "echo c").out == "c\n"
    probe.close()
    assert len(opened) > 7
    assert max(most) <= 3


def test_node_that_dies_leaves_its_connection_to_others():
    probe = Probe({name: here(name) for name in ("n1", "n2", "n3")}, Limits(open=1))
    for _ in range(2):
        answers = probe.run_all({"n1": Command("kill -9 $PPID", 10), "n2": Command("echo a", 10)})
        assert "n1: the connection ended" in str(answers["n1"])
        assert getattr(answers["n2"], "out", "") == "a\n"
    probe.close()


FEW_FILES = cases(__file__, "few_files")


def test_few_open_files_are_enough_for_a_fleet():
    done = execute([sys.executable, "-c", FEW_FILES])
    assert done.stdout == "{'hi\\n'}\n", done.stdout + done.stderr


def test_command_ends_by_a_broken_pipe_as_in_a_shell(probe):
    assert probe.run("n1", "yes | head -n 1; kill -PIPE $$") == Answer(-signal.SIGPIPE, "y\n", "")


def test_command_that_hides_its_end_is_waited_for(probe):
    assert probe.run("n1", "exec >&- 2>&-; sleep 0.2; exit 7").rc == 7


def test_program_that_is_not_there_is_the_shell_s_to_report(probe):
    answer = probe.run("n1", "/no/such/program -x")
    assert answer.rc == 127
    assert "/no/such/program" in answer.err


def test_thread_that_an_interrupt_met_at_its_start_ends_however_late_it_comes(monkeypatch):
    """As on a busy machine, where the thread comes to life when all has been closed."""
    failed: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", failed.append)
    with_nodes = Probe({"n1": here("n1")})
    thread = with_nodes._thread
    late = threading.Timer(2.0, thread.start)

    def interrupted():
        late.start()
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            with_nodes.run("n1", "true")
    with_nodes.close()
    late.join()
    thread.join(10)
    assert not thread.is_alive()
    assert with_nodes._loop.is_closed()
    assert failed == []


def test_interrupt_within_python_s_look_at_the_thread_leaves_it_to_be_ended(monkeypatch):
    """Python takes the thread's lock for its own then, and the thread for stopped (bpo-45274)."""
    with_nodes = Probe({"n1": here("n1")})
    assert with_nodes.run("n1", "echo out").out == "out\n"
    monkeypatch.setattr(with_nodes._thread, "_is_stopped", True)
    assert with_nodes.run("n1", "echo more").out == "more\n"
    with_nodes.close()
    assert with_nodes._loop.is_closed()
