"""NCCL's diagnostics in an acceptance: from what ranks print to findings with their nodes."""

import sys

import pytest
from tests.unit.helpers.accept_runs import job
from tests.unit.helpers.nccl_runs import GPUS, failed_run, packed
from tests.unit.helpers.shell import execute
from tests.unit.helpers.swept_fleets import gate_site
from tests.unit.nccl_log.test_nccl_diagnostics import HEALTHY, line, mismatch, outlier, pair

from rdmaprov.acceptance.live import ranks
from rdmaprov.acceptance.ranks.nccl_logs import read_run
from rdmaprov.acceptance.ranks.request import start_request
from rdmaprov.acceptance.ranks.run import JobRun, NodeRun
from rdmaprov.acceptance.stages.fleet import judge_diagnostics
from rdmaprov.probe.connection import Answer

NODES = 4


def run_with(**printed):
    ran = failed_run(NODES)
    for name, text in printed.items():
        node = ran.nodes[name] = NodeRun(own=range(GPUS), world=NODES * GPUS)
        head = '{"rc": 0, "why": "", "ranks": {}}\n'
        said = '{"rank": 0, "event": "phase", "phase": "x"}\n'
        events = list(node.take_answer(Answer(0, head + said + text, "")))
        assert [each["event"] for each in events] == ["phase"]
    site = gate_site(NODES)
    for number, node in enumerate(site.nodes):
        rails = [{"rdma": f"mlx5_{rail}"} for rail in range(8)]
        site.facts[node.name].update(hostname=f"host{number}.example", rails=rails)
    return site, ran


def findings(**printed):
    site, ran = run_with(**printed)
    return judge_diagnostics(site, read_run(ran).matrix)


def test_a_healthy_report_adds_nothing_and_is_kept():
    site, ran = run_with(n0=HEALTHY)
    kept: dict[str, str] = {}
    logs = read_run(ran, lambda name, text: kept.update({name: text}))
    assert judge_diagnostics(site, logs.matrix) == ([], [])
    assert kept == {"n0.diagnostics": HEALTHY}
    assert logs.nodes == frozenset()  # it is no log of channels


def test_a_gpu_that_loses_data_is_found_on_its_node():
    ([found], _) = findings(n2=mismatch(3, 5, host="host2") + mismatch(3, 6, host="host2"))
    assert (found.node, found.level, found.proven) == ("n2", "node", True)
    assert "GPU 3 is in all of them" in found.what


def test_ranks_of_all_nodes_communicator_are_those_of_the_job():
    text = f"uncorrected volatile errors on rank(s) {{9}} (worst=2) across {NODES * GPUS} ranks"
    ([found], _) = findings(n0=line("ECC", text))
    assert (found.node, found.proven) == ("n1", True)


def test_ranks_of_a_smaller_communicator_accuse_no_node():
    text = "uncorrected volatile errors on rank(s) {1} (worst=2) across 2 ranks"
    ([found], _) = findings(n0=line("ECC", text))
    assert (found.nodes, found.proven) == ((), True)


def test_both_ends_of_a_path_or_the_rail_that_failed_with_two():
    ([found], _) = findings(n0=pair("host0", "host1.example"))
    assert (found.nodes, found.level, found.proven) == (("n1", "n0"), "pair", False)
    ([found], _) = findings(n0=pair("host0", "host1"), n1=pair("host1", "host2"))
    assert (found.nodes, found.rail, found.proven) == (("n1",), 2, False)


def test_a_slow_rank_is_unknown_on_its_host():
    ([found], _) = findings(n0=outlier(3, "host3", 100))
    assert (found.nodes, found.proven) == (("n3",), False)


def test_what_c_prints_is_not_lost_where_a_rank_ends_by_exit():
    """In a pipe C would keep it until 4 KiB are full; Python turns that off for all of stdout."""
    request = start_request(job(2), "n0", 60)
    program = (
        "import ctypes, os\n"
        "ctypes.CDLL(None).printf(b'n:1 NCCL DIAG [OK] p2p: x\\n')\n"
        "os._exit(0)\n"
    )

    def printed(environment):
        return execute([sys.executable, "-c", program], check=True, env=environment).stdout

    assert printed({}) == ""
    assert printed(request["environment"]) == "n:1 NCCL DIAG [OK] p2p: x\n"


def networks(*names: str) -> bytes:
    return packed(*(f"n:1:2 [0] NCCL INFO Using network {name}\n" for name in names))


def named(*logs: bytes) -> list[str]:
    ran = JobRun(job(len(logs)))
    ran.nodes = {name: NodeRun(logs=log) for name, log in zip(ran.job.nodes, logs, strict=True)}
    return [each.node for each in ranks.odd_networks(ran.nodes)]


@pytest.mark.parametrize("odd", [("Socket",), ("IB", "Socket"), ("AWS",)])
def test_the_odd_one_is_named(odd):
    usual = networks("IB", "IB")
    assert named(usual, networks(*odd), usual, usual) == ["n1"]


@pytest.mark.parametrize(
    "logs",
    [
        [networks("IB")] * 4,
        [networks("Socket")] * 4,
        [networks("IB"), networks("Socket")],
        [networks("IB"), networks("IB"), networks("Socket"), networks("Socket")],
        [networks("IB"), networks("IB"), b"", b"no archive"],
        [b""] * 3,
    ],
    ids=["alike", "all-sockets", "two", "halves", "no-log", "none"],
)
def test_nobody_is_named_where_no_one_is_odd(logs):
    assert named(*logs) == []
