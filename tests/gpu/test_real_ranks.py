"""What the acceptance's agent measures and what is found, with real ranks on this machine."""

import os
import signal
import subprocess
from pathlib import Path

import pytest
from tests.gpu import ranks as made
from tests.gpu.ranks import PLANE, SHARED_GPU, python_with_torch, task
from tests.tables import cases

from rdmaprov import cli
from rdmaprov.acceptance.at_fault import run as blame
from rdmaprov.acceptance.at_fault import wrong_sums
from rdmaprov.acceptance.evidence import measure
from rdmaprov.acceptance.ranks.plan import DTYPES
from rdmaprov.bandwidth.ceiling import ALGORITHMS
from rdmaprov.exit_codes import ExitCode
from rdmaprov.nccl_log import transport
from rdmaprov.nccl_log.ras import parse_report
from rdmaprov.nccl_log.tuning import taken_algorithm
from rdmaprov.node.gpus import read_gpus

COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
# A few elements, a number that not all counts of ranks divide, and several buffers of NCCL.
SIZES = {"nccl": (8, 40_000, 16 << 20), "gloo": (8, 40_000, 1 << 20)}
# Of two bytes each, more values than 32 bits count; two buffers on each of two ranks, and NCCL's.
LARGE, NEEDED_GIB = {"nccl": 8 << 30, "gloo": 8 << 20}, 36
# The last all-reduce is that of one rank alone. The same dumps are of either backend.
APART = cases(__file__, "apart")
# Long enough that a signal meets the ranks within their collectives.
LONG_S = 60.0


def proven(found):
    return [(finding.node, finding.level) for finding in found if finding.proven]


@pytest.mark.parametrize("count", [2, 3])
def test_values_are_exact_for_each_collective_and_type(ranks, count):
    wanted = SIZES[ranks.backend]
    tasks = [
        task(number, count, name, sizes=wanted, dtypes=DTYPES, repeat=(5, 10, 0.2))
        for number, name in enumerate(COLLECTIVES)
    ]
    ran, _ = ranks.run(count, *tasks)
    assert blame.findings(ran) == []
    assert ran.events_of("wrong") == []
    seen = {(e["rank"], e["task"], e["bytes"]) for e in ran.events_of("checked")}
    assert seen == {(r, t, s) for r in range(count) for t in range(len(tasks)) for s in wanted}
    assert all(event["dtypes"] == list(DTYPES) for event in ran.events_of("checked"))
    assert all(event["count"] >= 5 for event in ran.events_of("row"))
    rows = [row for row in measure.rows(ran) if row.collective == "all_reduce"]
    row = measure.largest_row(rows, PLANE)
    assert row is not None
    assert (row.bytes, len(row.ranks)) == (max(wanted), count)


def test_values_beyond_32_bits_are_exact(ranks):
    size = LARGE[ranks.backend]
    if ranks.backend == "nccl" and int(read_gpus()["gpus"][0]["free_mib"]) < NEEDED_GIB << 10:
        pytest.skip(f"needs {NEEDED_GIB} GiB of GPU memory")
    ran, _ = ranks.run(2, task(0, 2, sizes=(size,), dtypes=("bfloat16",), repeat=(1, 1, 0.0)))
    assert blame.findings(ran) == []
    assert ran.events_of("wrong") == []
    checked = sorted((e["rank"], e["bytes"]) for e in ran.events_of("checked"))
    assert checked == [(0, size), (1, size)]


@pytest.mark.parametrize(
    ("rank", "body", "says"),
    [
        (1, made.SENDS_WRONG, "data from rank 1 arrives wrong at 2 others"),
        (2, made.GETS_WRONG, "rank 2 gets wrong results, 2 others get right ones"),
    ],
)
def test_a_rank_with_wrong_values_is_named(ranks, rank, body, says):
    ranks.corrupt(rank, body)
    ran, _ = ranks.run(3, task(0, 3, sizes=SIZES[ranks.backend], dtypes=("float32",)))
    (found,) = wrong_sums.findings(ran)
    assert (found.node, found.level, found.proven) == (f"n{rank}", "rank", True)
    assert says in found.what


def test_a_rank_out_of_memory_is_named_and_no_other(ranks, tmp_path, capsys):
    ranks.corrupt(1, made.TAKES_ALL_MEMORY)
    ran, _ = ranks.run(3, task(0, 3, sizes=SIZES[ranks.backend], dtypes=("float32",)))
    (found,) = blame.findings(ran)
    assert (found.node, found.level, found.part, found.proven) == ("n1", "rank", "rank 1", True)
    assert "allocate" in found.what
    if ranks.backend == "nccl":
        assert found.values == {"cause": "oom"}
        log, source = tmp_path / "log", "import torch; torch.empty(1 << 50, device='cuda')"
        with log.open("w") as file:
            subprocess.run([python_with_torch(), "-c", source], stderr=file, check=False)
        assert cli.run(["explain", str(log)]) == ExitCode.FAILED
        assert "the GPU is out of memory" in capsys.readouterr().out


class Signal:
    """Sends a signal to a rank once all ranks have reported of their soak."""

    def __init__(self, ranks, number):
        self.ranks, self.number = ranks, number
        self.seen: set[int] = set()
        self.victim = 0

    def __call__(self, event):
        if event["event"] == "soak" and event["rank"] not in self.seen:
            self.seen.add(event["rank"])
            if self.seen == {0, 1, 2}:
                self.victim = 1
                os.kill(self.ranks.processes[self.victim], self.number)


def soak():
    return task(0, 3, sizes=(1 << 20,), dtypes=("float32",), soak_s=LONG_S, limit_s=LONG_S)


@pytest.mark.parametrize("number", [signal.SIGABRT, signal.SIGKILL])
def test_a_rank_that_ends_is_named_and_no_other(ranks, number):
    sent = Signal(ranks, number)
    ran, _ = ranks.run(3, soak(), on_event=sent)
    assert proven(blame.findings(ran)) == [(f"n{sent.victim}", "rank")]


def test_a_rank_that_stops_is_named_and_no_other(ranks):
    sent = Signal(ranks, signal.SIGSTOP)
    ran, _ = ranks.run(3, soak(), on_event=sent)
    assert proven(blame.findings(ran)) == [(f"n{sent.victim}", "rank")]
    if ranks.backend == "nccl" and nccl_version(ran) >= (2, 24):
        reports = [parse_report(event["report"]) for event in ran.events_of("ras")]
        # A rank that was asked later also names those that have spoken and ended.
        ended = {ranks.processes[event["rank"]] for event in ran.events_of("late")}
        silent = {process.pid for report in reports for process in report.unresponsive}
        assert silent - ended == {ranks.processes[sent.victim]}


def nccl_version(ran):
    return tuple(map(int, next(event["nccl"] for event in ran.events_of("hello")).split(".")))


@pytest.mark.parametrize("backend", [pytest.param("nccl", marks=pytest.mark.gpu)], indirect=True)
def test_nccls_logs_name_the_algorithm_and_the_transport(ranks):
    size = max(SIZES["nccl"])
    ran, logs = ranks.run(2, task(0, 2, sizes=(size,), dtypes=("float32",)))
    assert ran.good
    taken = taken_algorithm(logs.matrix.choices, "AllReduce", size, 2)
    assert taken in ALGORITHMS, logs.matrix.choices
    verdict = transport.verdict(logs.matrix)
    assert verdict.transport is transport.Transport.SOCKET
    assert verdict.nccl_version is not None
    assert logs.matrix.unreadable[0] == 0, logs.matrix.unreadable
    kept = Path(made.logs_directory() / ranks.test)
    assert {path.name.split(".")[1] for path in kept.iterdir()} >= {"nccl", "err", "jsonl"}


def test_the_flight_recorder_names_operation_rank_and_line(backend, tmp_path, capsys):
    program = tmp_path / "apart.py"
    program.write_text(APART)
    line = 1 + APART[: APART.index("# HERE")].count("\n")
    recorded = {"TORCH_NCCL_TRACE_BUFFER_SIZE": "100", "TORCH_FR_BUFFER_SIZE": "100"}
    own = {**os.environ, **recorded, **(SHARED_GPU if backend == "nccl" else {})}
    argv = [python_with_torch(), str(program), backend]
    both = [
        subprocess.Popen([*argv, str(rank), str(tmp_path)], env={**own, "NCCL_HOSTID": f"n{rank}"})
        for rank in (0, 1)
    ]
    assert [each.wait(timeout=200) for each in both] == [0, 0]
    dumps = [str(tmp_path / f"trace_{rank}") for rank in (0, 1)]
    if backend == "gloo" and not Path(dumps[0]).exists():
        pytest.skip("this torch records no operations of gloo")
    code = cli.run(["explain", *dumps])
    said = capsys.readouterr().out
    assert code == ExitCode.UNKNOWN, said  # by the dumps alone, it is not overdue
    assert "rank 1 did not join operation 2 (all_reduce of 500 Float)" in said
    assert f"rank 0 in operation 2 (all_reduce of 500 Float) at apart.py:{line}" in said
