"""NCCL's logs as files: real ones, cut ones, large ones, and what is no log."""

import csv
import gzip
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.helpers.examples import examples
from tests.unit.helpers.nccl_jobs import VERSIONS, Job, judge, of

from rdmaprov.errors import UsageError
from rdmaprov.nccl_log import reader as log_reader
from rdmaprov.nccl_log import transport
from rdmaprov.nccl_log.reader import UnreadableLogError
from rdmaprov.nccl_log.transport import Gdr, Transport
from rdmaprov.nccl_log.tuning import taken_algorithm

FIXTURES = Path(__file__).parents[2] / "fixtures" / "nccl"
H100 = FIXTURES / "h100"

with (FIXTURES / "verdicts.csv").open(newline="") as opened:
    REAL = {row["log"]: row for row in csv.DictReader(opened)}


@pytest.mark.parametrize("name", sorted(p.stem for p in FIXTURES.glob("*.log")))
def test_real_log_has_its_verdict(name):
    verdict = transport.verdict(transport.read_matrix([FIXTURES / f"{name}.log"]))
    assert REAL[name] == {
        "log": name,
        "transport": verdict.transport,
        "gdr": verdict.gdr,
        "hcas": " ".join(verdict.hcas),
        "sharp": "yes" * verdict.sharp,
        "version": verdict.nccl_version or "",
    }


def test_every_real_log_names_its_source():
    said = (FIXTURES / "README.md").read_text()
    assert all(f"| `{name}` | " in said for name in REAL)
    cases = {path.name.split(".")[0] for path in H100.glob("*.log")}
    said = (H100 / "README.md").read_text()
    assert cases
    assert all(f"| `{name}` | " in said for name in cases)


def of_h100(case):
    return transport.read_matrix(sorted(H100.glob(f"{case}.?.log")))


@pytest.mark.parametrize("case", ["healthy", "subsys-all", "ib-hca"])
def test_real_job_on_an_h100_leaves_no_doubt(case):
    matrix = of_h100(case)
    verdict = transport.verdict(matrix)
    assert (verdict.transport, verdict.gdr) == (Transport.SOCKET, Gdr.NONE)
    assert judge(matrix, Transport.SOCKET) == []
    assert (matrix.size, matrix.absent, matrix.unfinished, matrix.silent) == (2, (), (), ())
    assert any(p.proven for p in transport.judge(matrix, Transport.ROCE, None, True))
    taken = taken_algorithm(matrix.choices, "AllReduce", 1 << 20, 2)
    assert taken == ("ring" if case == "subsys-all" else None)


def test_real_version_alone_proves_no_transport():
    """`NCCL_DEBUG=WARN`: of a healthy job, one rank shows its version, the other one nothing."""
    matrix = of_h100("version-warn")
    assert transport.verdict(matrix).transport == Transport.UNKNOWN
    assert [Path(name).name for name in matrix.silent] == ["version-warn.1.log"]
    assert not any(p.proven for p in transport.judge(matrix, Transport.SOCKET, None, False))


@pytest.mark.parametrize(
    "case", sorted({p.name.split(".")[0] for p in H100.glob("*.log")} - {"one-missing"})
)
def test_every_real_line_of_an_h100_is_read(case):
    matrix = of_h100(case)
    assert matrix.unreadable == (0, "")
    assert matrix.versions == ("2.28.9",)


def test_real_log_that_is_whole_leaves_no_doubt():
    matrix = transport.read_matrix([FIXTURES / "ofi-aws-libfabric-whole.log"])
    assert judge(matrix, Transport.OFI) == []
    assert (matrix.size, matrix.absent, matrix.unfinished) == (2, (), ())


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("layer", ["IB", "RoCE"])
def test_whole_job_of_every_version_is_proven(version, layer):
    matrix = of(Job(version=version, layer=layer).text())
    verdict = transport.verdict(matrix)
    assert verdict.transport == layer.lower()
    assert (verdict.gdr, verdict.hcas) == (Gdr.ALL, ("mlx5_0", "mlx5_1"))
    assert verdict.nccl_version == version
    assert judge(matrix, Transport(layer.lower()), gdr=True) == []


def test_several_files_are_one_job(tmp_path):
    job = Job()
    files = []
    for rank in range(job.ranks):
        files.append(tmp_path / f"nccl.{rank}.log")
        files[-1].write_text("".join(f"{line}\n" for step in job.rank(rank) for line in step))
    matrix = transport.read_matrix(files)
    assert matrix.channels == of(job.text()).channels
    assert judge(matrix, Transport.ROCE, gdr=True) == []


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (gzip.compress(Job().text().encode()), "compressed"),
        (Job().text().encode("utf-16"), "binary"),
        (bytes(range(256)) * 64, "binary"),
        (b"", "no line of NCCL"),
        (b"no such thing\n" * 9, "no line of NCCL"),
    ],
)
def test_file_that_is_no_text_or_without_nccl_lines_is_refused(data, said):
    with pytest.raises(UnreadableLogError, match=said):
        of(data)


def test_hole_of_zeros_in_a_log_is_not_binary():
    assert of(b"\0" * 20 + b"\n" + Job().text().encode()).channels


def test_one_silent_file_among_others_is_could_not_tell(tmp_path):
    (tmp_path / "a.log").write_text(Job().text())
    (tmp_path / "b.log").write_text("")
    matrix = transport.read_matrix([tmp_path / "a.log", tmp_path / "b.log"])
    (problem,) = transport.judge(matrix, Transport.ROCE, None, True)
    assert (problem.proven, "b.log: no line" in problem.what) == (False, True)


def test_missing_file_and_directory_are_usage_errors(tmp_path):
    with pytest.raises(UsageError, match="no such file"):
        transport.read_matrix([tmp_path / "none"])
    with pytest.raises(UsageError, match="is a directory"):
        transport.read_matrix([tmp_path])


def test_memory_does_not_grow_with_repetition():
    job = Job()
    few, many = of(job.text()), of(job.text() * 50)
    assert many.channels == few.channels


def test_all_to_all_costs_one_entry_for_each_device():
    lines = [
        f"h:1:2 [0] NCCL INFO Channel 00/1 : 0[0] -> {peer}[0] [send] via NET/IB/0/GDRDMA/Shared"
        for peer in range(1, 4097)
    ]
    assert len(of("\n".join([*lines, ""])).channels) == 1


def test_long_line_without_an_end_is_bounded(monkeypatch):
    monkeypatch.setattr(log_reader, "_CHUNK_BYTES", 1 << 12)
    monkeypatch.setattr(log_reader, "_LINE_BYTES", 1 << 12)
    assert (
        of(b"x" * (1 << 16) + b"\n" + Job().text().encode()).channels == of(Job().text()).channels
    )


TRUNCATED = (
    {path.stem: path.read_bytes() for path in sorted(FIXTURES.glob("*.log"))}
    | {"h100-healthy": b"".join((H100 / f"healthy.{rank}.log").read_bytes() for rank in (0, 1))}
    | {
        f"job-{version}-{name}": job.text().encode()
        for version in ("2.8.3", "2.12.1", "2.17.1", "2.20.5", "2.24.3", "2.30.7")
        for name, job in {
            "roce": Job(version=version),
            "ib": Job(version=version, layer="IB", gpus=3),
            "p2p": Job(version=version, nodes=1, gpus=4),
            "mixed": Job(version=version, networks={3: "Socket"}),
            "socket": Job(version=version, network="Socket"),
        }.items()
    }
)


def proves_nothing_else(data, whole):
    """Return whether a part of a log proves what the whole does, or says that it does not know."""
    try:
        matrix = of(data)
    except UnreadableLogError:
        return True
    doubts = any(not problem.proven for problem in transport.judge(matrix, None, None, False))
    return doubts or transport.verdict(matrix).transport in (whole, Transport.UNKNOWN)


@settings(max_examples=examples(400, in_check=100))
@given(name=st.sampled_from(sorted(TRUNCATED)), share=st.floats(0, 1))
def test_truncation_never_proves_another_transport(name, share):
    data = TRUNCATED[name]
    whole = transport.verdict(of(data)).transport
    assert proves_nothing_else(data[: int(len(data) * share)], whole)


@pytest.mark.parametrize("name", sorted(TRUNCATED))
def test_truncation_at_a_line_never_proves_another_transport(name):
    lines = TRUNCATED[name].splitlines(keepends=True)
    whole = transport.verdict(of(TRUNCATED[name])).transport
    assert all(proves_nothing_else(b"".join(lines[:n]), whole) for n in range(len(lines)))


@pytest.mark.parametrize("name", ["job-2.24.3-roce", "job-2.12.1-mixed"])
def test_beginning_of_a_job_is_never_taken_for_the_whole(name):
    lines = TRUNCATED[name].splitlines(keepends=True)
    matrices = [of(b"".join(lines[:n])) for n in range(1, len(lines) - 4)]
    assert all(transport.judge(matrix, Transport.ROCE, None, True) for matrix in matrices)
