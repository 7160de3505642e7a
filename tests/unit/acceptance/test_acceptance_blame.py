"""What is at fault for a run that failed."""

from pathlib import Path

import pytest
from tests.tables import cases
from tests.unit.helpers.accept_runs import broken, healthy, say
from tests.unit.helpers.nccl_runs import ALL_NODES, all_waited, failed_run, judge

from rdmaprov.acceptance.at_fault import run as blame
from rdmaprov.acceptance.at_fault import waiting
from rdmaprov.acceptance.at_fault.deaths import Death, death_of
from rdmaprov.acceptance.ranks.statements import sort_statements

H200 = Path(__file__).parents[2] / "fixtures/nccl/h200"
WAITS = "/opt/torch/lib/torch/distributed/distributed_c10d.py:3252 all_reduce"
CLOSED = "RuntimeError: [tcp/pair.cc:538] Connection closed by peer [198.18.1.3]:40112"


def late(ran, *ranks, where=WAITS):
    for rank in ranks:
        say(ran, rank, "late", phase="rail 1: sweep", limit_s=60, where=where, entered=500)


def test_a_good_run_has_nobody_to_blame():
    assert blame.findings(healthy()) == []


def test_a_node_that_is_gone_is_named_and_not_its_victims():
    ran = broken()
    ran.nodes["n2"].lost, ran.nodes["n2"].rc = True, None
    ran.nodes["n2"].why = "n2: the connection ended (255): timed out"
    late(ran, 0, 1, 3)
    (found,) = blame.findings(ran)
    assert (found.node, found.proven) == ("n2", True)
    assert "stopped answering during 'rail 1: sweep': the connection ended" in found.what


def test_a_rank_that_was_killed_is_named_by_its_signal():
    ran = broken()
    ran.nodes["n2"].ended = {2: -9}
    for rank in (0, 1, 3):
        say(ran, rank, "failed", phase="rail 1: sweep", error=CLOSED, entered=500)
    (found,) = blame.findings(ran)
    assert found.node == "n2"
    assert "killed by signal 9" in found.what


def of_fixture(case, ended):
    """Return a run whose node n2 has what real ranks wrote to standard error on one H200."""
    ran = broken()
    ran.nodes["n2"].errors = (H200 / f"{case}.torchrun.log").read_text()
    ran.nodes["n2"].ended = ended
    for rank in (0, 1, 3):
        say(ran, rank, "failed", phase="rail 1: sweep", error=CLOSED, entered=500)
    return ran


@pytest.mark.parametrize(
    ("case", "status", "said"), cases(__file__, "a_rank_that_failed_is_named_by_its_own_words")
)
def test_a_rank_that_failed_is_named_by_its_own_words(case, status, said):
    """Words of the other rank of its node blame others."""
    (found,) = blame.findings(of_fixture(case, {1: status}))
    assert (found.node, found.level, found.proven) == ("n2", "rank", True)
    assert found.what.startswith(said)


def test_a_rank_that_its_watchdog_ended_is_a_victim():
    death = death_of(of_fixture("hang", {0: -6}).nodes["n2"], ())
    assert death == Death("rank 0 was killed by signal 6", 0, is_victim=True)


def test_a_program_that_never_started_is_named_with_what_it_said():
    ran = broken()
    ran.nodes["n1"].errors = "/usr/bin/python3: No module named encodings\n"
    late(ran, 0, 2, 3)
    (found,) = blame.findings(ran)
    assert found.node == "n1"
    assert "No module named encodings" in found.what


def test_an_error_of_its_own_counts_more_than_broken_connections():
    ran = broken()
    say(ran, 0, "failed", phase="rail 1: sweep", error=CLOSED, entered=500)
    say(ran, 3, "failed", phase="rail 1: sweep", error="MemoryError: 8 GiB", entered=500)
    for rank in (1, 2):
        say(ran, rank, "failed", phase="rail 1: sweep", error=CLOSED, entered=500)
    (found,) = blame.findings(ran)
    assert (found.nodes, found.level, found.proven) == (("n3",), "rank", True)
    assert "MemoryError: 8 GiB" in found.what


@pytest.mark.parametrize(("error", "ranks"), cases(__file__, "ranks_of_a_monitored_barrier"))
def test_ranks_of_a_monitored_barrier(error, ranks):
    assert waiting.missing_ranks(error) == ranks


def test_who_does_not_join_the_rendezvous_is_named():
    ran = broken()
    error = "[Rank 0]: Ranks 1, 3 failed to pass monitoredBarrier in 5000 ms"
    say(ran, 0, "missing", error=error)
    for rank in range(4):
        say(ran, rank, "failed", phase="rendezvous", error=error, entered=0)
    assert {finding.node for finding in blame.findings(ran)} == {"n1", "n3"}


def test_who_still_imports_torch_is_no_proven_fault():
    ran = broken()
    say(ran, 0, "missing", error="[Rank 0]: Ranks 1, 3 failed to pass monitoredBarrier in 120 s")
    ran.nodes["n1"].ranks[1] = {**ran.nodes["n1"].ranks[1], "phase": "import torch"}
    one, three = waiting.absent_ranks(ran, sort_statements(ran))
    assert (one.node, one.proven, three.node, three.proven) == ("n1", False, "n3", True)
    assert "rank 1 did not join the rendezvous: it was still importing torch" in one.what


def test_a_stopped_process_keeps_the_others_waiting():
    ran = broken()
    ran.nodes["n1"].ranks[1] = {**ran.nodes["n1"].ranks[1], "process": "T"}
    ran.nodes["n1"].rc = None
    late(ran, 0, 2, 3)
    (found,) = blame.findings(ran)
    assert found.node == "n1"
    assert "its process is stopped (/proc/PID/stat: T)" in found.what


def test_a_rank_that_is_behind_keeps_the_others_waiting():
    ran = broken()
    ran.nodes["n3"].ranks[3] = {**ran.nodes["n3"].ranks[3], "entered": 498}
    late(ran, 0, 1, 2, 3)
    (found,) = blame.findings(ran)
    assert (found.node, "it started 498 collectives, the others 500" in found.what) == ("n3", True)


def test_ranks_of_other_communicators_began_as_many_collectives_as_those_had_time_for():
    ran = broken()
    for number, (communicator, entered) in enumerate([(1, 367), (2, 376), (2, 376), (1, 367)]):
        node = ran.nodes[f"n{number}"]
        at = {"communicator": communicator, "entered": entered}
        node.ranks[number] = {**node.ranks[number], **at}
    late(ran, 0, 1, 2, 3)
    (found,) = blame.findings(ran)
    assert (found.node, found.proven) == ("", False)


def test_a_rank_that_does_not_wait_in_torch_keeps_the_others_waiting():
    ran = broken(2)
    late(ran, 0)
    late(ran, 1, where="/root/hook.py:12 all_reduce")
    (found,) = blame.findings(ran)
    assert found.node == "n1"
    assert "it was in /root/hook.py:12 all_reduce, not in torch.distributed" in found.what


def test_nobody_is_accused_where_all_wait_alike():
    ran = broken()
    late(ran, 0, 1, 2, 3)
    (found,) = blame.findings(ran)
    assert (found.node, found.proven) == ("", False)


def test_broken_connections_alone_name_the_address_they_were_to():
    ran = broken()
    for rank in (0, 1, 3, 2):
        error = CLOSED if rank != 2 else "RuntimeError: Connection reset by peer"
        say(ran, rank, "failed", phase="rail 1: sweep", error=error, entered=500)
    (found,) = blame.findings(ran)
    assert (found.node, found.rail) == ("n2", 1)


def test_a_time_that_is_up_is_not_known_to_be_a_fault():
    ran = broken()
    for node in ran.nodes.values():
        node.rc, node.why = 124, "timed out after 10 s"
    (found,) = blame.findings(ran)
    assert (found.level, found.nodes, found.proven) == ("fleet", ran.job.nodes, False)


MEMLOCK = "Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory"
LAST = cases(__file__, "last")


def said_last(words, *nodes):
    ran = failed_run(ALL_NODES)
    for rank in range(ran.job.world):
        if ran.job.node_of(rank) in nodes:
            say(ran, rank, "failed", phase="rail 1: sweep", error=LAST + words, entered=1)
    all_waited(ran, *nodes)
    return judge(ran)


def test_what_nccl_said_last_is_named_once_for_a_node():
    (found,) = said_last(MEMLOCK, "n2")
    assert (found.node, found.level, found.values["cause"]) == ("n2", "node", "memlock")
    assert "Cannot allocate memory" in found.what
    assert "ulimit -l" in found.remedy


def test_what_most_nodes_have_alike_is_one_finding_with_its_remedy():
    (found,) = said_last(MEMLOCK, *(f"n{index}" for index in range(6)))
    assert (found.level, found.values["cause"]) == ("fleet", "memlock")
    assert found.remedy.startswith("raise memlock")


def test_versions_that_differ_are_no_nodes_fault():
    words = "Mismatched NCCL version detected : rank 0 version 22705 rank 1 version 22603"
    (found,) = said_last(words, "n1")
    assert (found.level, found.node, found.values["cause"]) == ("fleet", "", "version")


def test_words_that_nobody_knows_are_said_as_they_are():
    (found,) = said_last("Something new happened", "n2")
    assert "Something new happened" in found.what
