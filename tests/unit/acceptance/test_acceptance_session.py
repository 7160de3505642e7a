"""Ranks that wait for tasks: they get each one, whole and in order, and a failure ends the wait."""

import sys
from dataclasses import replace

import pytest
from tests.tables import cases
from tests.unit.helpers.accept_runs import job
from tests.unit.helpers.local_node import local_probe

from rdmaprov.acceptance.at_fault import run as blame
from rdmaprov.acceptance.ranks import jobs
from rdmaprov.acceptance.ranks.launch import Launcher
from rdmaprov.acceptance.ranks.plan import DTYPES, JobLimits, JobPlane, Task
from rdmaprov.acceptance.ranks.request import task_file
from rdmaprov.acceptance.ranks.run import MOST_MISSED, NodeRun
from rdmaprov.acceptance.stages import fleet as stages_fleet
from rdmaprov.probe.connection import Answer
from rdmaprov.probe.errors import NoAnswer

pytestmark = pytest.mark.waits

# Two ranks without torch, one for each node: each performs a task by saying so.
RANK = cases(__file__, "rank")


@pytest.fixture
def nodes():
    with local_probe("n0", "n1") as probe:
        yield probe


@pytest.fixture
def made(tmp_path):
    return job(2, pythons=dict.fromkeys(("n0", "n1"), ranks_with(tmp_path / "python", 0)))


def ranks_with(path, free):
    path.write_text(RANK.format(python=sys.executable, free=free))
    path.chmod(0o755)
    return str(path)


def task(number, stage="groups"):
    return Task(number, stage, "rail 0", ((0, 1),), sizes=(8,))


def stages(run, rank):
    return [e["phase"] for e in run.events_of("phase") if e["rank"] == rank]


def test_ranks_perform_each_task_in_order_and_end_with_the_session(nodes, made):
    with Launcher(nodes).open([made]) as session:
        (run,) = session.runs
        for number, stage in enumerate(("host", "groups", "fleet")):
            session.perform({0: task(number, stage)})
            assert run.is_finished(number)
            assert not run.has_failed
    assert run.good
    assert [stages(run, rank) for rank in (0, 1)] == [["host", "groups", "fleet"]] * 2
    assert len(run.events_of("done")) == 2
    assert [node.left for node in run.nodes.values()] == [(), ()]


def test_failed_rank_ends_the_wait_and_later_tasks_are_left_out(nodes, made):
    with Launcher(nodes, grace_s=0.2).open([made]) as session:
        (run,) = session.runs
        session.perform({0: task(0)})
        session.perform({0: task(1, "fails")})
        assert run.has_failed
        session.perform({0: task(2)})
    assert 2 not in run.tasks
    assert not run.good
    assert [node.left for node in run.nodes.values()] == [(), ()]


def test_the_last_of_many_groups_has_as_long_as_the_others_show(tmp_path):
    names = ("n0", "n1", "n2")
    python = ranks_with(tmp_path / "python", 0)
    limits = JobLimits(step=600, hang=7)
    made = job(nodes=names, pythons=dict.fromkeys(names, python), limits=limits, rounds=())
    with local_probe(*names) as nodes, Launcher(nodes, grace_s=0.2).open([made]) as session:
        (run,) = session.runs
        for number, stage in enumerate(("host", "hangs")):
            session.perform({0: Task(number, stage, "rail 0", ((0,), (1,), (2,)), sizes=(8,))})
    assert [(e["rank"], e["limit_s"]) for e in run.events_of("late")] == [(2, 7)]


@pytest.mark.parametrize(("groups", "late", "seconds", "limit"), cases(__file__, "limits"))
def test_most_groups_limit_the_others(groups, late, seconds, limit):
    found = JobLimits.of("nccl", 128).hurried_s(groups, late, seconds)
    assert found == pytest.approx(limit, abs=0.05)
    # NCCL still names a dead path where nodes have a longer timeout; gloo keeps its limit.
    assert JobLimits.of("nccl", 128, 22).hurried_s(8, 1, 3) > 8 * 4.096e-6 * 2**22
    assert JobLimits.of("gloo", 128).hurried_s(8, 1, 3) == JobLimits.of("gloo", 128).step


def test_jobs_side_by_side_get_their_own_tasks(nodes, made):
    one = job(1, pythons=made.pythons, nodes=("n0",))
    other = job(1, pythons=made.pythons, nodes=("n1",))
    alone = Task(0, "host", "rail 0", ((0,),))
    # Each rank is rank 0 of its own job.
    with Launcher(nodes).open([one, other]) as session:
        session.perform({0: alone, 1: alone})
        session.perform({1: Task(1, "groups", "rail 0", ((0,),))})
        session.perform({})
    first, second = session.runs
    assert (stages(first, 0), stages(second, 0)) == (["host"], ["host", "groups"])
    assert first.good
    assert second.good


def test_run_performs_the_tasks_of_the_job(nodes, made):
    (run,) = Launcher(nodes).run([made])
    assert run.good
    assert all(run.is_finished(each.number) for each in made.tasks)


@pytest.mark.parametrize(("taken", "is_good"), [(1, True), (2, True), (9, False)])
def test_port_that_is_taken_is_left_for_the_next_and_accuses_nobody(
    nodes, tmp_path, taken, is_good
):
    python = ranks_with(tmp_path / "python", 29500 + taken)
    wanted = job(2, pythons=dict.fromkeys(("n0", "n1"), python))
    (run,) = Launcher(nodes, grace_s=0.2).run([wanted])
    assert run.good is is_good
    assert [found for found in blame.findings(run) if found.proven] == []
    assert [node.left for node in run.nodes.values()] == [(), ()]


def test_file_of_a_task_that_is_cut_is_not_taken(nodes, tmp_path):
    name, content = task_file(job(2), "n0", 0, task(0))
    for name_of_file in ("out", "lease"):
        (tmp_path / name_of_file).touch()
    command = NodeRun(directory=str(tmp_path)).poll_command((name, content))
    answer = nodes.run_all({"n0": type(command)(command.text, 20, content[:-1])})["n0"]
    assert isinstance(answer, Answer)
    assert answer.rc != 0
    assert not (tmp_path / name).exists()
    nodes.run_all({"n0": command})
    assert (tmp_path / name).read_bytes() == content


def test_missed_poll_is_repeated_and_two_in_a_row_are_a_lost_node():
    node = NodeRun(directory="/run/x", own=range(1), world=1)
    list(node.take_answer(NoAnswer("n0: no answer", "x"), pushes=True))
    assert (node.lost, node.pushed) == (False, 0)
    list(node.take_answer(Answer(0, "{}\n", ""), pushes=True))
    assert (node.lost, node.pushed, node.why) == (False, 1, "")
    for _ in range(MOST_MISSED):
        list(node.take_answer(NoAnswer("n0: no answer", "x")))
    assert node.lost


def test_limits_grow_with_the_world_and_leave_nccl_its_say():
    small, large = JobLimits.of("nccl", 16), JobLimits.of("nccl", 4096)
    assert small.connect > 55
    assert large.connect > 150
    assert large.rendezvous > small.rendezvous
    # 4.096 µs · 2^22, and eight times that until an HCA gives up.
    assert small.step > 8 * 4.096e-6 * 2**22


def fleet_job(nodes, per_node=8):
    bare = job(
        nodes,
        per_node=per_node,
        backend="nccl",
        planes=(JobPlane("all rails"),),
        limits=JobLimits.of("nccl", nodes * per_node),
        rounds=(),
    )
    return replace(bare, tasks=tuple(jobs._fleet_tasks(bare, (8, 8 << 30), False)))


def test_the_limit_of_all_nodes_is_that_of_its_parts_each_connected_once():
    made = fleet_job(15)
    sweep, *others = [task for task in made.tasks if task.collective != "exchange"]
    rounds = [task for task in made.tasks if task.collective == "exchange"]
    limits = made.limits
    assert {task.groups for task in others} == {sweep.groups}
    wanted = limits.start_s + limits.connect
    wanted += sum(task.limit_s + 5 * limits.step for task in (sweep, *others))
    wanted += len(rounds) * (limits.connect + 2 * limits.step)
    assert made.limit_s() == pytest.approx(wanted)
    assert "time limit 1 h 51 min" in stages_fleet.fleet_line(made, made.limit_s())


def test_a_slow_but_healthy_sweep_ends_within_the_limit():
    """Over TCP at 1 GB/s, the largest size is begun before the task's limit and ends after it."""
    made, world = fleet_job(15), 120
    once_s = 8.6 * 2 * (world - 1) / world / 1.0
    # Two places: one run that is verified for each type, and another and five for the timed one.
    largest_s = once_s * 2 * (len(DTYPES) + 1 + 5)
    assert largest_s > made.tasks[0].limit_s
    assert largest_s < made.limits.task_s(made.tasks[0]) - made.limits.connect


def test_an_exchange_may_wait_for_one_dead_path():
    limits = JobLimits.of("nccl", 16)
    exchange = Task(0, "pairs", "x", ((0, 8),), "exchange")
    # NCCL names the HCA after 137 s; then the ranks report.
    assert limits.task_s(exchange) - limits.connect > 137 + limits.step
