"""What NCCL's RAS says of a job that hangs, in the texts of NCCL's user guide ("RAS")."""

import contextlib
import dataclasses
import json
import socket
import threading
from pathlib import Path

import pytest
from tests.tables import cases
from tests.unit.helpers.accept_runs import say
from tests.unit.helpers.nccl_runs import GPUS, failed_run

from rdmaprov.acceptance.agent.ras import ask, ask_or_wait
from rdmaprov.acceptance.at_fault import run as blame
from rdmaprov.acceptance.at_fault import waiting
from rdmaprov.acceptance.ranks.events import parse_event
from rdmaprov.acceptance.ranks.rail_map import RailMap
from rdmaprov.acceptance.ranks.statements import sort_statements
from rdmaprov.nccl_log.ras import LaggingRank, RasProcess, parse_report

H100 = Path(__file__).parents[2] / "fixtures/nccl/h100"
# The last one is in the form of 2.26 and later (src/ras/client_support.cc): one operation after the
# other, a rank that is alone on one line, and both numbers of a GPU where they differ.
MISMATCH, INCOMPLETE, DEAD, STATUS, ONE_BEHIND = (
    (H100.with_name("ras") / f"{name}.txt").read_text()
    for name in ("mismatch", "incomplete", "dead", "status", "one-behind")
)


def test_processes_that_do_not_answer():
    silent = (RasProcess("172.16.64.213", 3487984, 5),)
    assert parse_report(INCOMPLETE).unresponsive == silent
    assert parse_report(DEAD).unresponsive == silent


def test_ranks_that_lag_behind():
    found = parse_report(MISMATCH).lagging
    assert [each.process.pid for each in found] == [483072, 483074, 483075, 483076, 483077, 483079]
    assert {(each.launched, each.most) for each in found} == {(6649, 6650)}


def test_each_operation_is_counted_apart():
    assert parse_report(ONE_BEHIND.format(node="172.16.0.3")).lagging == (
        LaggingRank(RasProcess("172.16.0.3", 4721, 5), 499, 500),
        LaggingRank(RasProcess("172.16.0.3", 4722, 6), 0, 7),
    )


@pytest.mark.parametrize("text", ["", STATUS, "ERROR: Invalid format\n", "x" * 100, "\0\n#0-0"])
def test_what_says_nothing_of_them(text):
    report = parse_report(text)
    assert (report.unresponsive, report.lagging) == ((), ())


def of_h100(name):
    return (H100 / f"ras-{name}.txt").read_text()


@pytest.mark.parametrize(("name", "pids"), cases(__file__, "real_report_has_its_processes"))
def test_real_report_has_its_processes(name, pids):
    report = parse_report(of_h100(name))
    assert report.unresponsive == tuple(RasProcess("127.0.0.1", pid, 0) for pid in pids)
    assert report.lagging == ()


def hung(nodes=8, but=(), gpus=GPUS):
    """Return a run of which all ranks wait alike, and whose nodes have these addresses."""
    ran = failed_run(nodes, gpus)
    for node in ran.nodes.values():
        node.rc = None
    for rank in set(range(ran.job.world)) - set(but):
        say(ran, rank, "late", phase="x", limit_s=60, where="/torch/cuda/sync", entered=500)
    return ran, RailMap({f"172.16.0.{n + 1}": (f"n{n}", None) for n in range(nodes)})


def ran_ras(ran, rank, report):
    say(ran, rank, "ras", report=report)


def silent(*processes):
    said = "".join(
        f"  Process {pid} on node {node} managing GPU {gpu}\n" for node, pid, gpu in processes
    )
    return f"INCOMPLETE\n  Missing communicator data from n job processes\n{said}\n"


def test_the_rank_that_does_not_answer_is_named():
    # Most ranks have not reported yet, so their silence says nothing.
    ran, places = hung(but=range(20, 64))
    ran_ras(ran, 0, silent(("172.16.0.3", 4711, 5)))
    (found,) = blame.findings(ran, places)
    assert (found.level, found.nodes, found.proven) == ("rank", ("n2",), True)
    assert f"rank {2 * GPUS + 5} keeps the others waiting: it does not answer" in found.what


def test_the_process_id_that_a_rank_gave_counts_more_than_its_gpu():
    ran, places = hung()
    say(ran, 2 * GPUS + 1, "hello", pid=4721, torch="2.13.0", nccl="2.30.7")
    say(ran, 2 * GPUS + 2, "hello", pid=4722, torch="2.13.0", nccl="2.30.7")
    ran_ras(ran, 0, ONE_BEHIND.format(node="172.16.0.3"))
    assert [found.what[:7] for found in blame.findings(ran, places)] == ["rank 17", "rank 18"]


def test_the_ranks_that_lag_are_named_once_though_two_nodes_were_asked():
    ran, places = hung()
    for rank in (0, GPUS):
        ran_ras(ran, rank, ONE_BEHIND.format(node="172.16.0.3"))
    found = blame.findings(ran, places)
    assert [each.what.split(":")[0] for each in found] == [
        "rank 21 keeps the others waiting",
        "rank 22 keeps the others waiting",
    ]


def test_most_ranks_are_no_culprits():
    ran, places = hung(2, but=range(1, 16))
    everybody = [(f"172.16.0.{n + 1}", 0, gpu) for n in (0, 1) for gpu in range(8)]
    ran_ras(ran, 0, silent(*everybody))
    (found,) = blame.findings(ran, places)
    assert (found.nodes, found.proven) == ((), False)


def test_a_run_that_does_not_hang_is_not_judged_by_who_lags():
    ran, places = hung()
    ran.events = [event for event in ran.events if event["event"] != "late"]
    ran_ras(ran, 0, ONE_BEHIND.format(node="172.16.0.3"))
    assert not any("RAS" in found.what for found in blame.findings(ran, places))


def test_who_said_that_it_is_late_was_alive():
    ran, places = hung()
    ran_ras(ran, 0, silent(("172.16.0.3", 4711, 5)))
    (found,) = blame.findings(ran, places)
    assert (found.nodes, found.proven) == ((), False)


def with_rank_1_stopped(*asked, silent):
    """Return the job of the real reports: three ranks of one address; those asked heard of RAS."""
    ran, _ = hung(1, but=silent, gpus=3)
    for rank, pid in enumerate((1811, 1810, 1809)):
        say(ran, rank, "hello", pid=pid, torch="2.11.0+cu130", nccl="2.28.9")
    for rank in asked:
        ran_ras(ran, rank, of_h100(f"event-rank-{rank}"))
    return ran, RailMap({"127.0.0.1": ("n0", None)})


@pytest.mark.parametrize("asked", [(2,), (0,), (2, 0), (0, 2)])
def test_real_reports_name_the_stopped_rank_and_none_that_ended(asked):
    ran, places = with_rank_1_stopped(*asked, silent={1})
    (found,) = waiting.ras_findings(ran, sort_statements(ran), places)
    assert (found.level, found.nodes, found.proven) == ("rank", ("n0",), True)
    assert found.what == "rank 1 keeps the others waiting: it does not answer NCCL's RAS"
    (found,) = blame.findings(ran, places)
    assert (found.what[:6], found.proven) == ("rank 1", True)


def test_real_report_of_two_ranks_proves_nothing_if_neither_has_spoken():
    ran, places = with_rank_1_stopped(0, silent={1, 2})
    assert waiting.ras_findings(ran, sort_statements(ran), places) == []
    assert not any(found.proven for found in blame.findings(ran, places))


def test_gloo_jobs_are_not_judged_by_the_ras_of_another_job():
    ran, places = hung()
    ran.job = dataclasses.replace(ran.job, backend="gloo")
    ran_ras(ran, 0, ONE_BEHIND.format(node="172.16.0.3"))
    (found,) = blame.findings(ran, places)
    assert not found.proven


@pytest.fixture
def answering():
    server = socket.create_server(("127.0.0.1", 0))
    heard: list[bytes] = []

    def serve(answer):
        connection, _ = server.accept()
        with connection:
            while not b"".join(heard).endswith(b"STATUS\n"):
                heard.append(connection.recv(100))
            connection.sendall(answer)

    def start(answer):
        threading.Thread(target=serve, args=(answer,), daemon=True).start()
        return server.getsockname()[1]

    yield start, heard
    server.close()


def test_a_rank_asks_ras_by_its_protocol(answering):
    start, heard = answering
    report = ask(start(b"SERVER PROTOCOL 2\nOK\nJob summary\n\n" + INCOMPLETE.encode()), 10)
    assert b"".join(heard) == b"CLIENT PROTOCOL 2\nTIMEOUT 2\nSTATUS\n"
    assert report.strip().startswith("Errors")
    assert parse_report(report) == parse_report(INCOMPLETE)


def test_a_rank_without_ras_says_nothing(answering):
    assert ask(answering[0](b""), 10) == ""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        free = closed.getsockname()[1]
    assert ask(free, 10) == ""


def test_a_rank_asks_again_where_a_stopped_one_of_its_node_was_asked():
    """As NCCL's ranks of a node do, these share a port; of three, two never answer."""
    with contextlib.ExitStack() as stack:
        servers: list[socket.socket] = []
        for _ in range(3):
            server = stack.enter_context(socket.socket())
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            server.bind(servers[0].getsockname() if servers else ("127.0.0.1", 0))
            server.listen()
            servers.append(server)

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = servers[1].accept()
                    with connection:
                        connection.sendall(b"SERVER PROTOCOL 2\nOK\n" + INCOMPLETE.encode())
                        connection.recv(100)

        threading.Thread(target=serve, daemon=True).start()
        port = servers[0].getsockname()[1]
        reports = [parse_report(ask(port, 20)) for _ in range(3)]
        servers[1].shutdown(socket.SHUT_RDWR)
    assert reports == [parse_report(INCOMPLETE)] * 3


@pytest.mark.parametrize(("node", "local"), [("3", "0"), ("500", "0")])
def test_ranks_of_later_nodes_do_not_wait(monkeypatch, node, local):
    monkeypatch.setenv("GROUP_RANK", node)
    monkeypatch.setenv("LOCAL_RANK", local)
    assert ask_or_wait() == ""


def test_a_report_passes_the_boundary_at_its_full_length():
    line = json.dumps({"event": "ras", "rank": 0, "report": "x" * 4000})
    assert parse_event(line, range(1), 1) is not None
