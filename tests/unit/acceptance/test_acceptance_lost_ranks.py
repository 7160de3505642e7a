"""Who is at fault where ranks waited, or lost one another: the one they waited for, or nobody."""

from typing import Any

import pytest
from tests.unit.helpers.accept_runs import say
from tests.unit.helpers.nccl_runs import ALL_NODES, GPUS, all_waited, failed_run, judge, named

from rdmaprov.acceptance.ranks.plan import Task


def test_timeouts_of_the_watchdog_alone_accuse_nobody():
    ran = failed_run(ALL_NODES)
    all_waited(ran)
    (found,) = judge(ran)
    assert (found.nodes, found.proven) == ((), False)


def test_the_rank_that_lags_behind_others_that_timed_out_is_named():
    ran = failed_run(ALL_NODES)
    late(ran, set(range(64)) - {21}, where="/lib/torch/distributed/c10d.py:1 all_reduce")
    ran.nodes["n2"].ranks[21] = {**ran.nodes["n2"].ranks[21], "process": "T"}
    all_waited(ran, "n2")
    ran.nodes["n2"].rc = None
    assert named(judge(ran)) == {("rank", ("n2",), None)}


def late(ran, ranks, where="/lib/torch/cuda/__init__.py:1040 synchronize", entered=500):
    for rank in ranks:
        say(ran, rank, "late", phase="x", limit_s=60, where=where, entered=entered)
        node = ran.nodes[ran.job.node_of(rank)]
        node.ranks[rank] = {**node.ranks[rank], "entered": entered}


def test_groups_wait_for_their_own_rank_and_not_for_each_other():
    # The groups run as often as time allows, so the one that hangs has started fewer collectives.
    ran = failed_run(ALL_NODES)
    groups = tuple(tuple(range(first, first + 16)) for first in range(0, 64, 16))
    ran.tasks = {0: Task(0, "groups", "all rails", groups, sizes=(8,))}
    late(ran, groups[1], entered=200)
    all_waited(ran)
    (found,) = judge(ran)
    assert (found.nodes, found.proven) == ((), False)
    late(ran, [21], entered=199)
    (found,) = judge(ran)
    assert (found.level, found.nodes) == ("rank", ("n2",))
    assert "rank 21 keeps the others waiting" in found.what


def test_rank_that_is_late_in_a_group_of_its_own_waits_for_nobody():
    ran = failed_run(ALL_NODES)
    ran.tasks = {0: Task(0, "train", "all rails", tuple((rank,) for rank in range(64)), sizes=())}
    for rank in set(range(64)) - {21}:
        say(ran, rank, "finished", task=0)
    late(ran, [21], where="<frozen importlib._bootstrap_external>:1131 get_data")
    all_waited(ran)
    (found,) = judge(ran)
    assert (found.level, found.nodes, found.proven) == ("rank", ("n2",), True)
    assert "rank 21 did not end 'x' in 60 s, in which it waits for no other rank" in found.what
    assert "it was in <frozen importlib._bootstrap_external>:1131 get_data" in found.what


def test_most_ranks_that_are_late_by_themselves_accuse_no_node():
    ran = failed_run(ALL_NODES)
    ran.tasks = {0: Task(0, "train", "all rails", tuple((rank,) for rank in range(64)), sizes=())}
    late(ran, range(40), where="<frozen importlib._bootstrap_external>:1131 get_data")
    all_waited(ran)
    (found,) = judge(ran)
    assert (found.nodes, found.proven) == ((), False)
    assert "rank 0: it was in <frozen importlib" in found.what


def test_ranks_that_wait_for_their_gpus_are_victims_as_those_in_a_collective():
    ran = failed_run(ALL_NODES)
    late(ran, range(5))
    late(ran, range(5, 64), where="/lib/torch/distributed/c10d.py:1 all_reduce")
    all_waited(ran)
    (found,) = judge(ran)
    assert (found.nodes, found.proven) == ((), False)


@pytest.mark.parametrize("nodes", [8, 64])
def test_sixty_that_lost_one_name_that_one(nodes):
    ran = failed_run(nodes)
    for index in range(nodes):
        # Those around 3 lose 3; its own ranks lose one of them, and n5 loses n4, which had ended.
        lost = {3: 4, 5: 4}.get(index, 3)
        error = f"[tcp/pair.cc:538] Connection closed by peer [198.18.0.{lost + 1}]:40112"
        say(ran, index * GPUS, "failed", phase="sweep", error=error, entered=500)
    (found,) = judge(ran)
    assert (found.nodes, found.rail) == (("n3",), 0)
    assert f"{nodes - 2} nodes lost their connection to it" in found.what


def test_a_chain_of_lost_connections_accuses_nobody():
    ran = failed_run(ALL_NODES)
    for index in range(ALL_NODES):
        error = f"Connection closed by peer [198.18.0.{(index + 1) % ALL_NODES + 1}]:40112"
        say(ran, index * GPUS, "failed", phase="sweep", error=error, entered=500)
    (found,) = judge(ran)
    assert (found.nodes, found.proven) == ((), False)


def test_two_nodes_that_lose_each_other_are_both_named():
    ran = failed_run(2)
    for index in range(2):
        error = f"Connection reset by peer [198.18.1.{2 - index}]:40112"
        say(ran, index * GPUS, "failed", phase="sweep", error=error, entered=500)
    assert named(judge(ran)) == {("pair", ("n0", "n1"), 1)}


def test_an_error_that_most_nodes_have_is_one_finding():
    ran = failed_run(ALL_NODES)
    for rank in range(ran.job.world):
        say(ran, rank, "failed", phase="start", error="ValueError: no such backend", entered=0)
    (found,) = judge(ran)
    assert (found.level, len(found.nodes)) == ("fleet", ALL_NODES)


class CountedEvents(list[Any]):
    """Events that count how often one of them is looked at."""

    looks = 0

    def __iter__(self):
        for event in super().__iter__():
            CountedEvents.looks += 1
            yield event


def looks_for(nodes: int) -> float:
    ran = failed_run(nodes)
    for node in ran.nodes.values():
        node.ended = {3: -9}
    ran.events = CountedEvents(ran.events)
    CountedEvents.looks = 0
    assert len(judge(ran)) == nodes
    return CountedEvents.looks / len(ran.events)


def test_blame_reads_each_event_a_few_times_however_many_nodes_are_dead():
    assert looks_for(16) == looks_for(128) <= 4
