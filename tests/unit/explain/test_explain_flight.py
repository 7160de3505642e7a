"""Flight recorders: who did not join is at fault only if that is overdue, and he waits for none."""

import json

import pytest

from rdmaprov.exit_codes import ExitCode
from rdmaprov.explain.explain import explain_texts
from rdmaprov.explain.model import GivenText

SECOND = 10**9
WATCHDOG = (
    "[rank{0}]:[E1126 17:11:28 ProcessGroupNCCL.cpp:632] [Rank {0}] Watchdog caught collective"
    " operation timeout: WorkNCCL(SeqNum=2, OpType=ALLREDUCE, NumelIn=1, Timeout(ms)=15000)\n"
)
GROUPS = {"0": "[0, 1, 2]", "1": "[0, 1]", "2": "[1, 2]"}


def call(group, number, *, state="completed", name="all_reduce", values=4, created=0, **more):
    return {
        "process_group": [group, "undefined"],
        "collective_seq_id": number,
        "profiling_name": f"nccl:{name}",
        "input_sizes": [[values]],
        "input_dtypes": ["Float"],
        "state": state,
        "time_created_ns": created * SECOND,
        "timeout_ms": 15_000,
        **more,
    }


def explain(*calls, logs=(), groups=GROUPS):
    texts = []
    for rank, own in enumerate(calls):
        mine = {name: {"name": name, "ranks": ranks} for name, ranks in groups.items()}
        document = {"pg_config": {n: g for n, g in mine.items() if str(rank) in g["ranks"]}}
        text = json.dumps({**document, "entries": own}).encode()
        texts.append(GivenText(f"nccl_trace_rank_{rank}", text))
    logged = [GivenText(f"log{n}", text.encode()) for n, text in enumerate(logs)]
    return explain_texts([*texts, *logged])[-1 if not logs else 1]


WAITS = [call("0", 1), call("0", 2, state="scheduled", created=5)]
DONE = [call("0", 1)]


def test_rank_behind_is_unknown_until_the_watchdog_says_overdue():
    shown = explain(WAITS, WAITS, DONE)
    assert shown.code == ExitCode.UNKNOWN
    assert "rank 2 did not join operation 2" in shown.findings[0].what
    shown = explain(WAITS, WAITS, DONE, logs=[WATCHDOG.format(0)])
    assert (shown.code, shown.findings[0].part) == (ExitCode.FAILED, "rank 2")


def test_time_within_the_dumps_shows_that_an_operation_is_overdue():
    assert explain(WAITS, WAITS, [*DONE, call("2", 1, created=30)]).code == ExitCode.FAILED
    assert explain(WAITS, WAITS, [*DONE, call("2", 1, created=12)]).code == ExitCode.UNKNOWN


def test_rank_that_waits_in_another_group_is_no_cause():
    held = [*DONE, call("2", 1, state="started")]
    shown = explain(WAITS, [*WAITS, call("2", 1)], held, logs=[WATCHDOG.format(0)])
    assert not any(each.proven and each.part == "rank 2" for each in shown.findings)


def test_without_the_dump_of_a_member_nobody_is_at_fault():
    shown = explain(WAITS, DONE, logs=[WATCHDOG.format(0)])
    assert shown.code == ExitCode.UNKNOWN
    assert "no dump of rank 2" in shown.findings[0].what


def test_all_in_one_operation_accuse_nobody():
    shown = explain(WAITS, WAITS, WAITS, logs=[WATCHDOG.format(0)])
    assert [each.kind for each in shown.findings] == ["nccl.failed"]
    assert (shown.code, shown.findings[0].nodes) == (ExitCode.UNKNOWN, ())


def test_equal_ranks_that_ended_all_are_right():
    assert explain(DONE, DONE, DONE).code == ExitCode.OK


@pytest.mark.parametrize(
    ("other", "is_wrong"),
    [
        (call("0", 1, name="all_gather"), True),
        (call("0", 1, values=5), True),
        (call("0", 1, input_sizes=[[2, 2]]), False),
        (call("0", 1, input_dtypes=["Half"]), True),
        (call("0", 1, name="send 0->1", is_p2p=True), False),
    ],
)
def test_different_operations_are_wrong_and_accuse_nobody(other, is_wrong):
    found = [each for each in explain(DONE, DONE, [other]).findings if each.proven]
    assert bool(found) == is_wrong
    assert all(each.nodes == () and not each.part for each in found)


def test_sizes_of_an_uneven_all_gather_may_differ():
    mine, other = call("0", 1, name="all_gather"), call("0", 1, name="all_gather", values=9)
    assert explain([mine], [mine], [other]).code == ExitCode.OK


def test_group_of_gloo_is_known_by_its_operations():
    """ProcessGroupGloo records a group's ranks before its name is known (torch 2.13)."""
    shown = explain(WAITS, WAITS, DONE, groups={"": "[0, 1, 2]"})
    assert "rank 2 did not join operation 2" in shown.findings[0].what
    assert explain(DONE, DONE, DONE, groups={"": "[0, 1, 2]"}).code == ExitCode.OK


def test_operations_of_groups_that_are_not_listed_are_unknown():
    every = [*DONE, call(["7"], 1)]
    for groups in ({"0": "[0, 1, 2]"}, {"": "[0, 1, 2]"}):
        shown = explain(every, every, every, groups=groups)
        assert (shown.code, len(shown.findings)) == (ExitCode.UNKNOWN, 3)


def test_file_whose_name_has_no_rank_is_unknown():
    text = json.dumps({"pg_config": {"0": {"ranks": "[0]"}}, "entries": DONE}).encode()
    assert explain_texts([GivenText("dump", text)])[0].code == ExitCode.UNKNOWN
    assert explain_texts([GivenText("dump_0.json", text)])[0].code == ExitCode.OK
