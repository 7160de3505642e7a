"""Who is at fault where RDMA failed: rails, paths and leaves, never those who only saw it."""

import pytest
from tests.unit.helpers.accept_runs import say
from tests.unit.helpers.nccl_runs import (
    ALL_NODES,
    GPUS,
    REMOTE_ERROR,
    abort,
    all_waited,
    completion,
    failed_run,
    judge,
    named,
    packed,
)

from rdmaprov.nccl_log.completion import parse_completion


def in_standard_error(ran, name, rank, line):
    abort(ran.nodes[name], rank, line)


def in_a_report(ran, _name, rank, line):
    say(ran, rank, "failed", phase="all rails: sweep", error=REMOTE_ERROR + line, entered=500)


def in_the_log(ran, name, rank, line):
    ran.nodes[name].ended = {rank: -6}
    ran.nodes[name].logs = packed(f"n1:984:1357 [4] ib_plugin.c:1615 NCCL WARN {line}\n")


@pytest.mark.parametrize("words_are", [in_standard_error, in_a_report, in_the_log])
def test_a_completion_with_error_names_the_rail_and_both_ends(words_are):
    ran = failed_run(ALL_NODES)
    words_are(ran, "n1", 9, completion(1, 5, 3))
    all_waited(ran, "n1")
    (found,) = judge(ran)
    assert (found.level, found.nodes, found.rail) == ("pair", ("n1", "n5"), 3)
    assert not found.proven  # one end alone says it
    assert "status 12" in found.what
    assert "by mlx5_3" in found.what


@pytest.mark.parametrize("nodes", [2, 8, 64])
def test_the_rank_that_the_watchdog_ended_is_no_culprit(nodes):
    ran = run_that_saw((1, 0, 0), nodes=nodes)
    all_waited(ran, "n1")
    assert all(found.level == "pair" for found in judge(ran))


def run_that_saw(*ends, nodes=ALL_NODES):
    """Return a run in whose standard error a node each tells of a path: itself, the other, rail."""
    ran = failed_run(nodes)
    for one, other, rail in ends:
        in_standard_error(ran, f"n{one}", one * GPUS, completion(one, other, rail))
    return ran


@pytest.mark.parametrize(
    ("ends", "at_fault"),
    [
        pytest.param([(1, 5, 3), (5, 1, 3)], ("pair", ("n1", "n5"), 3), id="both-see-each-other"),
        pytest.param([(1, 2, 5), (4, 2, 5), (6, 2, 5)], ("rail", ("n2",), 5), id="silent-end"),
        # n1 loses n5 and ends; its neighbors n0 and n2 then lose n1.
        pytest.param(
            [(1, 5, 3), (0, 1, 3), (2, 1, 4)], ("pair", ("n1", "n5"), 3), id="seen-of-its-victim"
        ),
    ],
)
def test_what_ends_see_together_names_one_part(ends, at_fault):
    ran = run_that_saw(*ends)
    all_waited(ran)
    assert named(judge(ran)) == {at_fault}


def test_an_end_that_fails_towards_several_others_is_the_rail_at_fault():
    ran = run_that_saw((1, 2, 5), (4, 2, 5), (6, 2, 5), (2, 4, 5))
    all_waited(ran)
    # What n1 and n6 saw could follow from the end of n2, which n4 did not see first.
    assert {(f.rail, "n2" in f.nodes) for f in judge(ran)} == {(5, True)}


def test_a_node_whose_rails_all_fail_is_named_as_a_node():
    ran = failed_run(ALL_NODES)
    for other in (1, 4):
        lines = [completion(other, 2, rail) for rail in range(2)]
        abort(ran.nodes[f"n{other}"], other * GPUS, *lines)
    all_waited(ran)
    assert named(judge(ran, rails=2)) == {("node", ("n2",), None)}


def test_a_killed_rank_is_named_and_not_the_rails_to_it():
    # A process that is gone answers no more: its peers see status 12 as with a cut cable.
    ran = run_that_saw((1, 2, 5), (4, 2, 5), (6, 2, 5))
    ran.nodes["n2"].ended = {19: -9}
    all_waited(ran)
    (found,) = judge(ran)
    assert (found.level, found.nodes) == ("rank", ("n2",))
    assert "rank 19 was killed by signal 9" in found.what


def test_a_killed_rank_is_named_though_others_of_its_node_report():
    ran = failed_run(ALL_NODES)
    ran.nodes["n2"].ended = {19: -9}
    for rank in range(ran.job.world):
        if rank != 19:
            say(ran, rank, "failed", phase="x", error="Connection closed by peer", entered=5)
    assert named(judge(ran)) == {("rank", ("n2",), None)}


def test_a_dead_node_does_not_hide_a_rail_elsewhere():
    ran = run_that_saw((6, 7, 0), (1, 5, 3))
    ran.nodes["n7"].lost, ran.nodes["n7"].rc, ran.nodes["n7"].why = True, None, "timed out"
    all_waited(ran)
    assert named(judge(ran)) == {("node", ("n7",), None), ("pair", ("n1", "n5"), 3)}


def test_a_leaf_that_fails_is_named_with_its_nodes():
    pairs = ((4, 0), (5, 9), (6, 12), (7, 3))
    ran = run_that_saw(*((*ends, 0) for pair in pairs for ends in (pair, pair[::-1])), nodes=16)
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
    abort(ran.nodes["n1"], 9, *lines)
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
    ran = run_that_saw((1, 200, 3))
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
    ran = run_that_saw(*((one, one + 1, 0) for one in range(0, 64, 2)), nodes=64)
    all_waited(ran)
    assert named(judge(ran)) == {("fleet", (), None)}


ERRNO = ["110 Connection timed out", "101 Network is unreachable", "19 No such device"]


def connect(one: int, other: int, rail: int, errno: str = ERRNO[0], far: int | None = None) -> str:
    """Return NCCL's line, since 2.24, about a queue pair that it cannot connect."""
    return (
        f"Call to ibv_modify_qp failed with {errno}, on dev mlx5_{rail}:1, curr state INIT, next "
        f"state RTR, local GID index 3, local GID ::ffff:198.18.{rail}.{one + 1}, remote GID "
        f"::ffff:198.18.{rail if far is None else far}.{other + 1}"
    )


def only_the_proxy_in_a_report(ran, name, rank, line):
    """Torch's last error is the proxy's, and the log has the cause: src/proxy.cc."""
    proxy = "[Proxy Service 1] Failed to execute operation Connect from rank 9, retcode 2"
    in_a_report(ran, name, rank, proxy)
    ran.nodes[name].logs = packed(f"{name}:1:2 [3] misc/ibvwrap.cc:262 NCCL WARN {line}\n")


def run_of(words_are, *paths, errno=ERRNO[0]):
    ran = failed_run(ALL_NODES)
    by_node: dict[int, list[str]] = {}
    for one, other, *rails in paths:
        by_node.setdefault(one, []).append(connect(one, other, rails[0], errno, rails[-1]))
    for one, lines in by_node.items():
        words_are(ran, f"n{one}", one * GPUS, "\n".join(lines))
    all_waited(ran, *(f"n{one}" for one in by_node))
    return judge(ran)


@pytest.mark.parametrize("words_are", [in_standard_error, in_a_report, only_the_proxy_in_a_report])
@pytest.mark.parametrize("errno", [*ERRNO, "22 Invalid argument"])
def test_an_end_to_which_several_cannot_connect_is_the_rail_at_fault(words_are, errno):
    found = run_of(words_are, (1, 5, 3), (4, 5, 3), (6, 5, 3), errno=errno)
    assert named(found) == {("rail", ("n5",), 3)}
    assert found[0].proven


def test_a_node_that_cannot_connect_to_several_is_named_itself():
    assert named(run_of(in_a_report, (1, 5, 3), (1, 6, 3), (1, 7, 3))) == {("rail", ("n1",), 3)}
    assert named(run_of(in_a_report, (1, 5, 0), (1, 6, 1), (1, 7, 2))) == {("node", ("n1",), None)}


@pytest.mark.parametrize("errno", ERRNO)
def test_one_end_that_cannot_connect_proves_nothing(errno):
    (found,) = run_of(in_a_report, (1, 5, 3), errno=errno)
    assert (found.level, found.nodes, found.rail, found.proven) == ("pair", ("n1", "n5"), 3, False)


def test_rails_that_are_not_connected_to_each_other_are_nobodys_fault():
    (found,) = run_of(in_a_report, (1, 5, 0, 3), (4, 5, 0, 3), (6, 5, 0, 3))
    assert (found.level, found.nodes) == ("fleet", ())
    assert "NCCL_CROSS_NIC=0" in found.remedy


def test_a_connect_that_is_tried_again_is_no_failure():
    line = f"{connect(1, 5, 3)}, retrying 1/34 after 100 msec of sleep"
    assert parse_completion(line.encode()) is None
