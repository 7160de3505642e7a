"""`rdmaprov explain nccl-log`: exit codes, JSON and what people read."""

import json
from pathlib import Path

import pytest
import yaml
from tests.program import call
from tests.unit.helpers.nccl_jobs import Job

from rdmaprov import cli
from rdmaprov.exit_codes import ExitCode

FIXTURES = Path(__file__).parents[1] / "fixtures" / "nccl"


@pytest.fixture
def explain(tmp_path, capsys):
    def run(log, *options):
        file = tmp_path / "nccl.log"
        file.write_text(log if isinstance(log, str) else log.text())
        return cli.run(["explain", "nccl-log", str(file), *options]), capsys.readouterr().out

    return run


@pytest.mark.parametrize(
    ("job", "options", "code"),
    [
        (Job(), [], ExitCode.OK),
        (Job(), ["--expect", "roce"], ExitCode.OK),
        (Job(), ["--expect", "ib"], ExitCode.FAILED),
        (Job(layer="IB"), ["--expect", "ib"], ExitCode.OK),
        (Job(gdr=False), [], ExitCode.OK),
        (Job(gdr=False), ["--expect", "roce"], ExitCode.FAILED),
        (Job(gdr=False), ["--expect", "roce", "--no-gdr"], ExitCode.OK),
        (Job(without_gdr=frozenset({0})), [], ExitCode.FAILED),
        (Job(without_gdr=frozenset({0})), ["--expect", "roce", "--no-gdr"], ExitCode.FAILED),
        (Job(networks={0: "Socket"}), [], ExitCode.FAILED),
        (Job(network="Socket"), [], ExitCode.OK),
        (Job(network="Socket"), ["--expect", "roce"], ExitCode.FAILED),
        (Job(network="FasTrak"), [], ExitCode.UNKNOWN),
        (Job(network="FasTrak"), ["--expect", "ib"], ExitCode.UNKNOWN),
        (Job(network="Libfabric"), [], ExitCode.OK),
        (Job(nodes=1), [], ExitCode.OK),
        (Job(nodes=1), ["--expect", "ib"], ExitCode.FAILED),
    ],
)
def test_exit_code_is_the_verdict(explain, job, options, code):
    assert explain(job, *options)[0] == code


def test_log_that_ends_early_is_a_verdict_but_no_proof(explain):
    lines = [line for line in Job().lines() if "Connected" not in line]
    text = "\n".join(line for line in lines if "COMPLETE" not in line) + "\n"
    assert explain(text)[0] == ExitCode.OK
    assert explain(text, "--expect", "roce")[0] == ExitCode.UNKNOWN


def test_logs_of_some_ranks_are_a_proof_only_of_these(explain):
    text = "".join(f"{line}\n" for line in Job().lines() if line.startswith("node0"))
    assert explain(text, "--expect", "roce")[0] == ExitCode.UNKNOWN
    code, said = explain(text, "--expect", "roce", "--partial")
    assert code == ExitCode.OK
    assert "note:    ranks 2-3 of 4: no line in the logs" in said


def test_json_has_verdict_and_matrix(explain):
    code, said = explain(Job(channels=1, without_gdr=frozenset({0})), "--json")
    found = json.loads(said)
    (problem,) = found.pop("problems")
    matrix = found.pop("matrix")
    assert problem.startswith("rank 0 on node0: no GPUDirect RDMA on 1 of 2 channels")
    lists = ("notes", "algorithms", "completion_errors", "warnings", "diagnostics")
    whole = {"transport": "roce", "gdr": "some", "hcas": ["mlx5_0", "mlx5_1"], "sharp": False}
    assert found == {**whole, "nccl_version": "2.21.5", **{key: [] for key in lists}}
    assert len(matrix) == 4
    place = {"rank": 0, "host": "node0", "pid": 100, "gpu": 0, "channel": 0, "direction": "receive"}
    way = {"peer": 3, "transport": "roce", "network": "IB", "hcas": ["mlx5_0"], "gdr": False}
    assert matrix[0] == place | way
    assert code == ExitCode.FAILED


def test_people_read_the_verdict_first_then_ranks_then_remedies(explain):
    job = Job(networks={3: "Socket"}, environment=("NCCL_IB_DISABLE set by environment to 1.",))
    lines = explain(job)[1].splitlines()
    assert lines[0].startswith("mixed; GPUDirect RDMA on some of 8 channels between nodes; HCAs")
    assert lines[2].split() == [
        *("ranks", "hosts", "transport", "HCA", "GDR", "channels", "within", "the", "node")
    ]
    assert [line.split()[0] for line in lines[3:6]] == ["0,2", "1", "3"]
    assert any(line.startswith("problem: rank 3 on node1: socket") for line in lines)
    assert "`NCCL_IB_DISABLE set by environment to 1`: unset it" in "\n".join(lines[6:])


def test_ranks_that_are_alike_are_one_row_and_are_not_compared_aloud(explain):
    rows = explain(Job(nodes=40, gpus=2))[1].splitlines()
    assert len(rows) == 5
    assert "node0 and 39 more" in rows[3]
    assert not [row for row in rows if "problem" in row or "note" in row]


def test_control_characters_of_a_log_do_not_reach_the_terminal(explain):
    text = Job().text().replace("mlx5_0", "mlx\x075_0\x9b31m")
    assert not {"\x07", "\x9b"} & set(explain(text)[1])


@pytest.mark.parametrize("data", [b"", b"\x7fELF\0\0\0\0"])
def test_no_log_is_one_clear_line(tmp_path, capsys, data):
    file = tmp_path / "x.log"
    file.write_bytes(data)
    assert cli.run(["explain", "nccl-log", str(file)]) == ExitCode.UNKNOWN
    error, hint = capsys.readouterr().err.splitlines()
    assert error.startswith(f"error: {file}: ")
    assert hint.startswith("hint:  ")


def test_missing_file_is_a_usage_error(tmp_path, capsys):
    assert cli.run(["explain", "nccl-log", str(tmp_path / "none.log")]) == ExitCode.USAGE
    assert "none.log: no such file" in capsys.readouterr().err


def test_standard_input_and_real_log():
    log = (FIXTURES / "roce-rxe-rank-0-of-3.log").read_text()
    words = ["explain", "nccl-log", "-", "--expect", "roce", "--partial"]
    done = call(*words, cwd=FIXTURES, stdin=log)
    assert done.returncode == ExitCode.FAILED
    assert "GPU Direct RDMA Disabled for HCA 0 'rxe0'" in done.stdout


def test_algorithms_by_size_and_completions_with_error_are_shown(capsys, tmp_path):
    job = Job()
    log = tmp_path / "nccl.log"
    error = (
        "NET/IB: Got completion from peer 10.0.0.2<4791> with status=12 opcode=0 len=0 vendor err"
        " 129 (Send) localGid ::ffff:10.0.0.1 remoteGids::ffff:10.0.0.2 hca mlx5_1"
    )
    said = [
        job.message(0, f"AllReduce: {size} Bytes -> Algo {taken} channel{{Lo..Hi}}={{0..15}}")
        for size, taken in ((8, "TREE proto LL"), (16, "TREE proto LL"), (8 << 30, "RING proto LL"))
    ]
    log.write_text("\n".join([job.text(), *said, job.message(2, error), ""]))
    assert cli.run(["explain", "nccl-log", str(log)]) == ExitCode.FAILED
    lines = capsys.readouterr().out.splitlines()
    assert "AllReduce of 4 ranks, 8 B to 16 B: tree ll" in lines
    assert "AllReduce of 4 ranks, 8 GiB: ring ll" in lines
    assert "node1 rank 2 mlx5_1 (GID ::ffff:10.0.0.1) to ::ffff:10.0.0.2: status 12" in lines[0]
    assert "vendor error 129: no answer from the peer" in lines[0]
    cli.run(["explain", "nccl-log", str(log), "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["algorithms"][-1]["algorithm"] == "ring"
    assert found["completion_errors"][0]["hca"] == "mlx5_1"


def test_nccls_own_diagnostics_are_problems_and_notes(explain):
    """In the forms of NCCL 2.31; see tests/unit/nccl_log/test_nccl_diagnostics.py."""
    said = (
        "node1:7 NCCL DIAG [INFO] ECC: uncorrected volatile errors on rank(s) {2} (worst=3)"
        " across 4 ranks in comm 0x1\n"
        "node0:7 NCCL DIAG [INFO] CUDA driver version: unavailable across 4 ranks in comm 0x1\n"
    )
    code, out = explain(Job().text() + said)
    assert code == ExitCode.FAILED
    assert "problem: rank 2: NCCL's diagnostics, ECC: uncorrected volatile errors (worst 3)" in out
    assert "note:    NCCL's diagnostics, CUDA driver version: unavailable" in out
    data = json.loads(explain(Job().text() + said, "--json")[1])
    assert [line["check"] for line in data["diagnostics"]] == ["ECC", "CUDA driver version"]


def test_hosts_that_differ_are_named_in_one_line_each(explain):
    said = [
        *("h1", "Using network IB"),
        *("h2", "Using network AWS Libfabric"),
        *("h1", "NCCL_IB_TC set by environment to 106."),
        *("h2", "NCCL_IB_TC set by environment to 0."),
        *("h1", "NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE [RO]; OOB eth0:192.0.2.1<0>"),
        *("h2", "NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:192.0.2.2<0>"),
    ]
    pairs = zip(said[::2], said[1::2], strict=True)
    code, out = explain("".join(f"{host}:1:2 [0] NCCL INFO {words}\n" for host, words in pairs))
    assert code == ExitCode.FAILED
    assert "problem: hosts use different networks: AWS Libfabric on h2, IB on h1" in out
    assert "unknown: h2: NCCL found 1 HCA, and 2 on others; it lacks mlx5_1" in out
    assert "note:    hosts differ in NCCL_IB_TC: 0 on h2, 106 on h1" in out


def test_gdr_off_without_a_logged_cause_and_sockets_beside_hcas_are_not_silent(explain):
    code, out = explain(Job(gdr=False))
    assert code == ExitCode.OK
    first, second, *_ = out.splitlines()
    assert first.startswith("roce; no GPUDirect RDMA on 8 channels")
    assert second.startswith(
        "note:    node0, node1: GPUDirect RDMA is not used: on the node, check"
    )
    seen = Job(network="Socket").text().replace("No device found.", "Using [0]mlx5_0:1/RoCE [RO]")
    code, out = explain(seen)
    assert code == ExitCode.FAILED
    assert "node0: socket although NCCL found mlx5_0" in out
    assert "run `ibv_devinfo`" in out


EXPECTED = yaml.safe_load((FIXTURES / "expected.yml").read_text())
RAN = yaml.safe_load((FIXTURES / "jobs_that_ran.yml").read_text())


def name(case):
    return " ".join([*case["logs"], *case.get("options", ())])


@pytest.mark.parametrize("case", EXPECTED, ids=name)
def test_log_gives_the_cause_first(case, monkeypatch, capsys):
    monkeypatch.chdir(FIXTURES)
    code = cli.run(["explain", "nccl-log", *case["logs"], *case.get("options", ())])
    printed = "".join(capsys.readouterr())
    head = "\n".join(printed.splitlines()[:5])
    assert code == case["code"], printed
    assert [word for word in case.get("head", ()) if word not in head] == [], printed
    assert [word for word in case.get("some", ()) if word not in printed] == [], printed
    assert [word for word in case.get("not", ()) if word in printed] == [], printed


@pytest.mark.parametrize("case", RAN, ids=lambda case: case["log"])
def test_nothing_new_is_said_of_a_job_that_ran(case, monkeypatch, capsys):
    monkeypatch.chdir(FIXTURES)
    code = cli.run(["explain", "nccl-log", case["log"]])
    assert "".join(capsys.readouterr()) == case["text"]
    assert code == case["code"]


def test_every_log_of_a_failed_job_has_an_expectation():
    used = {log for case in EXPECTED for log in case["logs"]} | {case["log"] for case in RAN}
    here = {
        str(path.relative_to(FIXTURES))
        for room in ("reports", "public", "h100", "h200")
        for path in (FIXTURES / room).glob("*.log")
    }
    assert here <= used
