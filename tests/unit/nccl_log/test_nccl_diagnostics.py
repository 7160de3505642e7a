"""NCCL's diagnostics since 2.31: lines of its user guide and in the forms of its source.

The reports `HEALTHY`, `RAS` and `NETWORK` are those of NVIDIA's user guide ("Diagnostics", "RAS
diagnostics"). The lines of faults are in the forms of src/diagnostics/p2p.cc, ib_write_bw.cc and
src/ras/diagnostics*.cc, with values as RCCL's tests of these files have them. No log of a real
fault was found.
"""

import pytest
from tests.tables import cases
from tests.unit.helpers.nccl_jobs import Job, of

from rdmaprov.nccl_log.diagnosis import conclude
from rdmaprov.nccl_log.judgement import diagnosed, sentence

HEALTHY = cases(__file__, "healthy")
RAS = cases(__file__, "ras")
NETWORK = cases(__file__, "network")


def line(check, text, host="node01"):
    return f"{host}:4242 NCCL DIAG [INFO] {check}: {text}\n"


def copy(kind, source, target, path="NVL", handle="CUMEM_POSIX_FD", tail="", host="node01"):
    edge = (
        f"srcRank={source} srcCudaDev=0 srcNvmlDev={source} dstRank={target} dstCudaDev=1"
        f" dstNvmlDev={target} path={path} handle={handle}"
    )
    return line("p2p", f"{kind} {edge} {tail or 'reason=x; inspect it'}", host)


def mismatch(source, target, **more):
    got = "expected=0x4000000200000001 got=0x0000000000000abc verify=0x0000000000000def; check it"
    return copy("write mismatch", source, target, tail=got, **more)


def concluded(text):
    return conclude(of(text).diagnostics)


@pytest.mark.parametrize("text", [HEALTHY, RAS.replace("[INFO]", "[OK]  ")])
def test_a_report_without_an_issue_shows_no_fault(text):
    assert concluded(text) == ([], [])


def test_the_report_is_read_beside_the_log_of_the_job():
    matrix = of(HEALTHY + Job().text())
    assert len(matrix.channels) == 8
    assert [(each.check, each.is_ok) for each in matrix.diagnostics] == [
        ("net bw", True),
        ("p2p", True),
    ]


def test_what_differs_between_ranks_on_purpose_is_a_note():
    faults, notes = concluded(RAS)
    assert faults == []
    assert len(notes) == 3
    assert "NCCL_DEBUG=WARN on rank(s) {4,5,6,7}" in notes[2]


def test_many_notes_are_counted():
    faults, notes = concluded("".join(line("NCCL environment", f"NCCL_X{n}=1") for n in range(30)))
    assert (faults, len(notes), notes[-1]) == ([], 9, "and 22 more lines of them")


# --- copies between GPUs ---------------------------------------------------------------------


def test_a_gpu_that_is_in_all_failed_copies_is_named():
    text = "".join(mismatch(3, other) + mismatch(other, 3) for other in (0, 1, 2))
    ([fault], notes) = concluded(text + line("p2p", "only 50/56 GPU-to-GPU peer accesses passed"))
    assert (fault.hosts, fault.proven) == (("node01",), True)
    assert "write mismatch from GPU 3 to GPU 0 (path NVL" in fault.what
    assert fault.what.endswith("and 5 more; GPU 3 is in all of them")
    assert "only 50/56" in notes[0]


def test_of_one_pair_neither_gpu_is_accused():
    ([fault], _) = concluded(mismatch(3, 5) + mismatch(5, 3))
    assert fault.what.endswith("(path NVL, CUMEM_POSIX_FD) and 1 more")


@pytest.mark.parametrize(
    ("kind", "gpu"), [("local CUDA setup failed", 3), ("destination buffer unavailable", 5)]
)
def test_the_side_that_was_not_ready_is_named(kind, gpu):
    ([fault], _) = concluded(copy(kind, 3, 5))
    assert f"GPU {gpu} is at fault" in fault.what


def test_faults_of_two_nodes_are_two():
    faults, _ = concluded(mismatch(0, 1) + mismatch(2, 3, host="node02"))
    assert [fault.hosts for fault in faults] == [("node01",), ("node02",)]


def test_a_copy_between_nodes_of_an_nvlink_domain_accuses_no_node():
    ([fault], _) = concluded(mismatch(3, 70, handle="CUMEM_FABRIC"))
    assert (fault.hosts, fault.ranks) == ((), ())
    assert "imex" in fault.remedy


@pytest.mark.parametrize(("more", "words"), cases(__file__, "the_remedy_fits_the_path"))
def test_the_remedy_fits_the_path(more, words):
    ([fault], _) = concluded(copy(**{"kind": "read mismatch", "source": 0, "target": 1, **more}))
    assert words in fault.remedy


# --- what RAS compares -----------------------------------------------------------------------


def ranks(check, text, size=16):
    return concluded(line(check, text.format(f"across {size} ranks in comm 0x5fa31c27a9e0d1b4")))[0]


def test_uncorrected_memory_errors_name_their_ranks():
    [fault] = ranks("ECC", "uncorrected volatile errors on rank(s) {{3,11}} (worst=2) {}")
    assert (fault.ranks, fault.size, fault.proven) == ((3, 11), 16, True)
    assert "uncorrected volatile errors (worst 2)" in fault.what


def test_of_many_ranks_those_that_nccl_lists_are_named_and_all_counted():
    listed = "{{0,1,2,3,4,5,6,7,...}} (N=12)"
    [fault] = ranks("NVLink", f"inactive link(s) on rank(s) {listed} {{}}")
    assert fault.ranks == tuple(range(8))
    assert fault.what.endswith("12 ranks in all")


@pytest.mark.parametrize(
    ("differ", "size", "named"),
    [("{{5}}", 16, (5,)), ("{{1,2,3}}", 4, (0,)), ("{{1}}", 2, ()), ("{{2,3}}", 4, ())],
    ids=["one differs", "rank 0 is the odd one", "of two, either", "two halves"],
)
def test_the_ranks_that_are_fewer_are_the_odd_ones(differ, size, named):
    text = f"link-count mismatch {{}}, rank(s) {differ} differ from rank 0 (18)"
    [fault] = ranks("NVLink", text, size)
    assert fault.ranks == named


def test_different_drivers_are_a_note():
    text = "mismatch across 2 ranks in comm 0x5, rank(s) {1} differ from rank 0 (13000)"
    faults, notes = concluded(line("CUDA driver version", text))
    assert faults == []
    assert "rank(s) {1} differ" in notes[0]


# --- the network -----------------------------------------------------------------------------


def pair(server, client, why="tool run timed out"):
    return line(
        "net bw",
        f"mode=same server_rank=0 server_host={server} server_device=mlx5_2 client_rank=8"
        f" client_host={client} client_device=mlx5_2 memory=cuda+dmabuf {why} in comm 0x1234abcd",
    )


def outlier(rank, host, gbit_s, median=400.0):
    said = (
        f"same-nic rank {rank} ({host}): {gbit_s:.1f} Gbit/s, >30% off median {median:.1f} Gbit/s"
    )
    return line("net bw", f"{said} in comm 0x1")


def test_a_slow_rank_is_unknown_and_not_proven():
    ([fault], notes) = concluded(NETWORK)
    assert (fault.hosts, fault.proven) == (("node0",), False)
    assert "rank 3 reaches 265.1 Gbit/s (cross-nic), the median is 391.5" in fault.what
    assert len(notes) == 1


def test_the_partner_of_a_slow_rank_is_not_accused():
    # It measured 100 with the slow one and 390 with another: 245 of 400.
    faults, _ = concluded(outlier(3, "a", 100) + outlier(11, "b", 245) + outlier(19, "c", 251))
    assert [fault.hosts for fault in faults] == [("a",)]


def test_a_rank_that_is_faster_than_others_is_not_accused():
    assert concluded(outlier(3, "a", 550))[0] == []


def test_of_a_pair_that_failed_both_ends_are_named_and_none_is_proven():
    ([fault], _) = concluded(pair("a", "b"))
    assert (fault.hosts, fault.proven) == (("b", "a"), False)
    assert "ib_write_bw from mlx5_2 to mlx5_2: tool run timed out" in fault.what


def test_the_end_that_failed_with_two_others_is_named_alone():
    ([fault], _) = concluded(pair("a", "b") + pair("b", "c"))
    assert (fault.hosts, fault.hca) == (("b",), "mlx5_2")
    assert fault.what.endswith("failed with a, c")


# --- odd lines -------------------------------------------------------------------------------


@pytest.mark.parametrize("text", cases(__file__, "odd_lines_accuse_nobody"))
def test_odd_lines_accuse_nobody(text):
    assert concluded(text)[0] == []


def test_a_problem_is_one_line_without_control_characters():
    faults, _ = concluded(mismatch(3, 5, host="a\x1bb"))
    assert all("\x1b" not in sentence(diagnosed(fault)) for fault in faults)
    assert sentence(diagnosed(faults[0])).startswith("a")
