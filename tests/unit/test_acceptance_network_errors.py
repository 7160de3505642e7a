"""Who is at fault where RDMA failed: rails, paths and leaves, never those who only saw it."""

from __future__ import annotations

import io
import tarfile
from typing import Any

import pytest
from tests.unit.accept_runs import say
from tests.unit.nccl_runs import (
    GPUS,
    REMOTE_ERROR,
    aborted,
    completion,
    failed_run,
    places,
    summary,
    timed_out,
)

from rdmaprov.acceptance import blame
from rdmaprov.acceptance.finding import Finding
from rdmaprov.acceptance.plan import Task

ALL_NODES = 8


def judge(ran, per_leaf=0, rails=GPUS):
    return blame.findings(ran, places(len(ran.nodes), rails, per_leaf))


def named(found: list[Finding]):
    return {(each.level, each.nodes, each.rail) for each in found}


def all_waited(ran, *others):
    """Let torch's watchdog end a rank of each node that did not say anything else."""
    for index, (name, node) in enumerate(ran.nodes.items()):
        if name not in others and not node.errors:
            node.errors = timed_out(index * GPUS)


def packed(text: str) -> bytes:
    packing = io.BytesIO()
    with tarfile.open(fileobj=packing, mode="w:gz") as archive:
        member = tarfile.TarInfo("nccl.n1.4711")
        member.size = len(text.encode())
        archive.addfile(member, io.BytesIO(text.encode()))
    return packing.getvalue()


def in_standard_error(ran, name, rank, line):
    ran.nodes[name].errors = aborted(rank, line)


def in_a_report(ran, _name, rank, line):
    say(ran, rank, "failed", phase="all rails: sweep", error=REMOTE_ERROR + line, entered=500)


def in_the_log(ran, name, rank, line):
    ran.nodes[name].errors = summary(rank, -6)
    ran.nodes[name].logs = packed(f"n1:984:1357 [4] ib_plugin.c:1615 NCCL WARN {line}\n")


@pytest.mark.parametrize("words_are", [in_standard_error, in_a_report, in_the_log])
def test_a_completion_with_error_names_the_rail_and_both_ends(words_are):
    ran = failed_run(ALL_NODES)
    words_are(ran, "n1", 9, completion(1, 5, 3))
    all_waited(ran, "n1")
    (found,) = judge(ran)
    assert (found.level, found.nodes, found.rail) == ("pair", ("n1", "n5"), 3)
    assert found.proven
    assert "status 12" in found.what
    assert "by mlx5_3" in found.what


@pytest.mark.parametrize("device", ["mlx5_3:1 ", ""], ids=["by-name", "older-nccl"])
@pytest.mark.parametrize("at_fault", [1, 5])
def test_the_end_whose_port_went_down_is_named_alone(device, at_fault):
    ran = failed_run(ALL_NODES)
    in_standard_error(ran, "n1", 9, completion(1, 5, 3))
    in_standard_error(ran, "n5", 41, completion(5, 1, 3))
    said = f"[3] p2p_plugin.c:141 NCCL WARN NET/IB : {device}Got async event : port error"
    ran.nodes[f"n{at_fault}"].logs = packed(f"n{at_fault}:984:1357 {said}\n")
    all_waited(ran)
    assert named(judge(ran)) == {("rail", (f"n{at_fault}",), 3)}


@pytest.mark.parametrize("nodes", [2, 8, 64])
def test_the_rank_that_the_watchdog_ended_is_no_culprit(nodes):
    ran = failed_run(nodes)
    in_standard_error(ran, "n1", 9, completion(1, 0, 0))
    all_waited(ran, "n1")
    assert all(found.level == "pair" for found in judge(ran))


def test_two_ends_that_see_each_other_are_one_path():
    ran = failed_run(ALL_NODES)
    in_standard_error(ran, "n1", 9, completion(1, 5, 3))
    in_standard_error(ran, "n5", 41, completion(5, 1, 3))
    all_waited(ran)
    assert named(judge(ran)) == {("pair", ("n1", "n5"), 3)}


def test_an_end_that_fails_towards_several_others_is_the_rail_at_fault():
    ran = failed_run(ALL_NODES)
    for other in (1, 4, 6):
        in_standard_error(ran, f"n{other}", other * GPUS, completion(other, 2, 5))
    in_standard_error(ran, "n2", 16, completion(2, 4, 5))
    all_waited(ran)
    # What n1 and n6 saw could follow from the end of n2, which n4 did not see first.
    assert {(f.rail, "n2" in f.nodes) for f in judge(ran)} == {(5, True)}


def test_a_silent_end_that_fails_towards_several_others_is_the_rail_at_fault():
    ran = failed_run(ALL_NODES)
    for other in (1, 4, 6):
        in_standard_error(ran, f"n{other}", other * GPUS, completion(other, 2, 5))
    all_waited(ran)
    assert named(judge(ran)) == {("rail", ("n2",), 5)}


def test_a_node_whose_rails_all_fail_is_named_as_a_node():
    ran = failed_run(ALL_NODES)
    for other in (1, 4):
        lines = [completion(other, 2, rail) for rail in range(2)]
        ran.nodes[f"n{other}"].errors = aborted(other * GPUS, *lines)
    all_waited(ran)
    assert named(judge(ran, rails=2)) == {("node", ("n2",), None)}


def test_what_is_seen_of_a_rank_that_had_seen_an_error_accuses_nobody():
    # n1 loses n5 and ends; its neighbors n0 and n2 then lose n1.
    ran = failed_run(ALL_NODES)
    in_standard_error(ran, "n1", 9, completion(1, 5, 3))
    in_standard_error(ran, "n0", 0, completion(0, 1, 3))
    in_standard_error(ran, "n2", 17, completion(2, 1, 4))
    all_waited(ran)
    assert named(judge(ran)) == {("pair", ("n1", "n5"), 3)}


def test_a_killed_rank_is_named_and_not_the_rails_to_it():
    # A process that is gone answers no more: its peers see status 12 as with a cut cable.
    ran = failed_run(ALL_NODES)
    ran.nodes["n2"].errors = summary(19, -9)
    for other in (1, 4, 6):
        in_standard_error(ran, f"n{other}", other * GPUS, completion(other, 2, 5))
    all_waited(ran)
    (found,) = judge(ran)
    assert (found.level, found.nodes) == ("rank", ("n2",))
    assert "rank 19 was killed by signal 9" in found.what


def test_a_killed_rank_is_named_though_others_of_its_node_report():
    ran = failed_run(ALL_NODES)
    ran.nodes["n2"].errors = summary(19, -9)
    for rank in range(ran.job.world):
        if rank != 19:
            say(ran, rank, "failed", phase="x", error="Connection closed by peer", entered=5)
    assert named(judge(ran)) == {("rank", ("n2",), None)}


def test_a_dead_node_does_not_hide_a_rail_elsewhere():
    ran = failed_run(ALL_NODES)
    ran.nodes["n7"].lost, ran.nodes["n7"].rc, ran.nodes["n7"].why = True, None, "timed out"
    in_standard_error(ran, "n6", 48, completion(6, 7, 0))
    in_standard_error(ran, "n1", 9, completion(1, 5, 3))
    all_waited(ran)
    assert named(judge(ran)) == {("node", ("n7",), None), ("pair", ("n1", "n5"), 3)}


def test_a_leaf_that_fails_is_named_with_its_nodes():
    ran = failed_run(16)
    for one, other in ((4, 0), (5, 9), (6, 12), (7, 3)):
        in_standard_error(ran, f"n{one}", one * GPUS, completion(one, other, 0))
        in_standard_error(ran, f"n{other}", other * GPUS, completion(other, one, 0))
    all_waited(ran)
    assert named(judge(ran, per_leaf=4)) == {("leaf", ("n4", "n5", "n6", "n7"), None)}


def test_a_leaf_that_is_gone_is_named_once():
    ran = failed_run(16)
    for index in range(4, 8):
        node = ran.nodes[f"n{index}"]
        node.lost, node.rc, node.why = True, None, "timed out"
    all_waited(ran, "n4", "n5", "n6", "n7")
    assert named(judge(ran, per_leaf=4)) == {("leaf", ("n4", "n5", "n6", "n7"), None)}


def test_a_flush_after_the_first_error_is_no_error_of_its_own():
    ran = failed_run(ALL_NODES)
    lines = completion(1, 5, 3), completion(1, 6, 4, status=5)
    ran.nodes["n1"].errors = aborted(9, *lines)
    all_waited(ran)
    assert named(judge(ran)) == {("pair", ("n1", "n5"), 3)}


def test_infiniband_has_no_gids_and_is_named_by_hca_and_peer():
    # Form of github.com/NVIDIA/nccl/issues/1664.
    line = (
        "NET/IB: Got completion from peer 172.16.0.6<36315> with status=12 opcode=32698 "
        "len=32696 vendor err 129 (Send) hca mlx5_4"
    )
    ran = failed_run(ALL_NODES)
    in_standard_error(ran, "n1", 9, line)
    all_waited(ran)
    assert named(judge(ran)) == {("pair", ("n1", "n5"), 4)}


def test_an_address_that_nobody_has_leaves_the_end_that_is_known():
    ran = failed_run(ALL_NODES)
    in_standard_error(ran, "n1", 9, completion(1, 200, 3))
    all_waited(ran)
    (found,) = judge(ran)
    assert (found.level, found.nodes, found.rail) == ("rail", ("n1",), 3)
    assert "198.18.3.201" in found.what


def test_a_node_cannot_speak_for_another_one():
    # n1 claims an error between n5 and n6: it is taken as its own.
    ran = failed_run(ALL_NODES)
    in_standard_error(ran, "n1", 9, completion(5, 6, 3, hca="mlx5_2"))
    all_waited(ran)
    assert named(judge(ran)) == {("pair", ("n1", "n6"), 2)}


def test_a_fabric_that_fails_everywhere_is_one_finding():
    ran = failed_run(64)
    for one in range(0, 64, 2):
        in_standard_error(ran, f"n{one}", one * GPUS, completion(one, one + 1, 0))
    all_waited(ran)
    assert named(judge(ran)) == {("fleet", (), None)}


def test_timeouts_of_the_watchdog_alone_accuse_nobody():
    ran = failed_run(ALL_NODES)
    all_waited(ran)
    (found,) = judge(ran)
    assert (found.nodes, found.proven) == ((), False)


def test_the_rank_that_lags_behind_others_that_timed_out_is_named():
    ran = failed_run(ALL_NODES)
    for rank in range(ran.job.world):
        if rank != 21:
            say(ran, rank, "late", phase="all rails: sweep", limit_s=60,
                where="/lib/torch/distributed/c10d.py:1 all_reduce", entered=500)  # fmt: skip
    ran.nodes["n2"].ranks[21] = {**ran.nodes["n2"].ranks[21], "process": "T"}
    all_waited(ran, "n2")
    ran.nodes["n2"].rc = None
    assert named(judge(ran)) == {("rank", ("n2",), None)}


def late(ran, ranks, where="/lib/torch/cuda/__init__.py:1040 synchronize", entered=500):
    for rank in ranks:
        say(ran, rank, "late", phase="x", limit_s=60, where=where, entered=entered)
        node = ran.nodes[ran.job.node_of(rank)]
        node.ranks[rank] = {**node.ranks[rank], "entered": entered}


def test_groups_side_by_side_do_not_wait_for_each_other():
    # The groups run as often as time allows, so the one that hangs has started fewer collectives.
    ran = failed_run(ALL_NODES)
    groups = tuple(tuple(range(first, first + 16)) for first in range(0, 64, 16))
    ran.tasks = {0: Task(0, "groups", "all rails", groups, sizes=(8,))}
    late(ran, groups[1], entered=200)
    all_waited(ran)
    (found,) = judge(ran)
    assert (found.nodes, found.proven) == ((), False)


def test_the_rank_that_a_group_waits_for_is_named():
    ran = failed_run(ALL_NODES)
    groups = tuple(tuple(range(first, first + 16)) for first in range(0, 64, 16))
    ran.tasks = {0: Task(0, "groups", "all rails", groups, sizes=(8,))}
    late(ran, groups[1], entered=200)
    late(ran, [21], entered=199)
    all_waited(ran)
    (found,) = judge(ran)
    assert (found.level, found.nodes) == ("rank", ("n2",))
    assert "rank 21 keeps the others waiting" in found.what


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
        node.errors = summary(3, -9)
    ran.events = CountedEvents(ran.events)
    CountedEvents.looks = 0
    assert len(judge(ran)) == nodes
    return CountedEvents.looks / len(ran.events)


def test_blame_reads_each_event_a_few_times_however_many_nodes_are_dead():
    assert looks_for(16) == looks_for(128) <= 4
