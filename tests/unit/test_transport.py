"""NCCL's logs: real ones, and whole jobs in the formats of every version."""

from __future__ import annotations

import gzip
import io
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.nccl_jobs import VERSIONS, Job

from rdmaprov.acceptance import nccl_log, transport
from rdmaprov.acceptance.nccl_log import UnreadableLogError
from rdmaprov.acceptance.transport import Gdr, Transport
from rdmaprov.errors import UsageError

FIXTURES = Path(__file__).parents[1] / "fixtures" / "nccl"

# Of each real log: transport, GPUDirect RDMA, HCAs, SHARP, version.
REAL = {
    "comm-split": ("unknown", "all", [], False, None),
    "ib-2.22-no-gdr-no-devices": ("unknown", "none", [], False, None),
    "ib-2.24-host-removed": ("unknown", "none", [], False, None),
    "ib-2.7-one-node-through-nics": (
        "ib",
        "all",
        ["mlx5_10", "mlx5_12", "mlx5_14", "mlx5_8"],
        False,
        "2.7.6",
    ),
    "ib-gin-before-channels": ("unknown", "unknown", [], False, None),
    "ib-h20-two-nodes-four-ranks": ("unknown", "all", [], False, None),
    "ib-one-host-send-receive": ("unknown", "all", [], False, None),
    "ib-sharp-plugin-before-channels": ("unknown", "unknown", [], False, None),
    "kubernetes-times-before-channels": ("unknown", "unknown", [], False, None),
    "mpirun-prefix-disabled-lo": ("unknown", "unknown", [], False, "2.5.6"),
    "ofi-aws-libfabric-whole": ("ofi", "none", [], False, None),
    "ofi-libfabric-torchrun-prefix": ("ofi", "all", [], False, None),
    "p2p-2.21-ray-lines-cut": ("p2p", "none", [], False, "2.21.5"),
    "p2p-direct-one-process": ("unknown", "unknown", [], False, None),
    "p2p-lines-joined": ("unknown", "unknown", [], False, None),
    "plugin-gib-ray-prefix": ("unknown", "all", [], False, None),
    "plugin-ibext-64-ranks-no-gdr": ("unknown", "none", [], False, None),
    "plugin-ibext-dmabuf-no-devices": ("unknown", "all", [], False, None),
    "plugin-ucx-rccl": ("unknown", "all", [], False, None),
    "prefix-removed": ("unknown", "unknown", [], False, "2.24.3"),
    "roce-2.10-before-channels": ("unknown", "unknown", [], False, "2.10.3"),
    "roce-2.22-only-nvlink-so-far": ("unknown", "unknown", [], False, None),
    "roce-merged-ports": ("roce", "none", ["mlx5_0", "mlx5_1"], False, None),
    "roce-rxe-rank-0-of-3": ("roce", "none", ["rxe0"], False, None),
    "sharp-2.23-hang": ("ib", "all", ["mlx5_0", "mlx5_4"], True, "2.23.4"),
    "shared-no-devices": ("unknown", "all", [], False, None),
    "shm-2.27-one-node-whole": ("p2p", "none", [], False, "2.27.3"),
    "shm-one-node": ("unknown", "unknown", [], False, None),
    "socket-2.18-no-device": ("socket", "none", [], False, None),
    "socket-2.8-style": ("socket", "none", [], False, None),
    "socket-both-nodes-one-name": ("socket", "none", [], False, None),
    "socket-rank-3-of-4": ("socket", "none", [], False, None),
}


def of(text):
    """Return the matrix of a log's text, by way of standard input."""
    data = text if isinstance(text, bytes) else text.encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(data)))
        return transport.read([Path("-")])


def judged(matrix, expected=None, hcas=None, *, gdr=False, every_rank=True):
    return [str(p) for p in transport.judge(matrix, expected, hcas, gdr, every_rank=every_rank)]


@pytest.mark.parametrize("name", sorted(p.stem for p in FIXTURES.glob("*.log")))
def test_real_log_has_its_verdict(name):
    verdict = transport.verdict(transport.read([FIXTURES / f"{name}.log"]))
    assert REAL[name] == (
        verdict.transport,
        verdict.gdr,
        list(verdict.hcas),
        verdict.sharp,
        verdict.nccl_version,
    )


def test_every_real_log_names_its_source():
    said = (FIXTURES / "README.md").read_text()
    assert all(f"| `{name}` | " in said for name in REAL)


def test_real_log_that_is_whole_leaves_no_doubt():
    matrix = transport.read([FIXTURES / "ofi-aws-libfabric-whole.log"])
    assert judged(matrix, Transport.OFI) == []
    assert (matrix.size, matrix.absent, matrix.unfinished) == (2, (), ())


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("layer", ["IB", "RoCE"])
def test_whole_job_of_every_version_is_proven(version, layer):
    matrix = of(Job(version=version, layer=layer).text())
    verdict = transport.verdict(matrix)
    assert verdict.transport == layer.lower()
    assert (verdict.gdr, verdict.hcas) == (Gdr.ALL, ("mlx5_0", "mlx5_1"))
    assert verdict.nccl_version == version
    assert judged(matrix, Transport(layer.lower()), gdr=True) == []


@pytest.mark.parametrize("version", VERSIONS)
def test_single_node_of_every_version_is_p2p(version):
    matrix = of(Job(version=version, nodes=1, gpus=4).text())
    assert transport.verdict(matrix).transport is Transport.P2P
    assert judged(matrix) == []
    assert "no channel leaves a node" in judged(matrix, Transport.IB)[0]


@pytest.mark.parametrize("version", VERSIONS)
def test_sockets_of_every_version_fail_with_the_cause(version):
    matrix = of(Job(version=version, network="Socket").text())
    assert transport.verdict(matrix).transport is Transport.SOCKET
    problems = judged(matrix, Transport.ROCE, gdr=True)
    assert [p.split(" on ")[1].split(":")[0] for p in problems] == ["node0", "node1"]
    assert "No device found" in problems[0]
    assert "ibv_devinfo" in problems[0]


def test_channel_has_rank_hca_direction_and_peer():
    matrix = of(Job(channels=1).text())
    said = [str(channel) for channel in matrix.channels]
    assert said == [
        "rank 0 (node0 gpu 0) channel 00 receive from rank 3 via mlx5_0",
        "rank 1 (node0 gpu 1) channel 00 send to rank 2 via mlx5_1",
        "rank 2 (node1 gpu 0) channel 00 receive from rank 1 via mlx5_0",
        "rank 3 (node1 gpu 1) channel 00 send to rank 0 via mlx5_1",
    ]


def test_mixed_transports_name_the_odd_rank():
    matrix = of(Job(networks={3: "Socket"}).text())
    assert transport.verdict(matrix).transport is Transport.MIXED
    (problem,) = judged(matrix)
    assert problem.startswith("rank 3 on node1: socket on 2 channels between nodes, others roce")


def test_one_rank_without_gdr_is_a_problem_that_names_its_hca():
    matrix = of(Job(without_gdr=frozenset({2})).text())
    assert transport.verdict(matrix).gdr is Gdr.SOME
    (problem,) = judged(matrix)
    assert problem.startswith("rank 2 on node1: no GPUDirect RDMA on 2 of 4 channels")
    assert "mlx5_0" in problem


def test_no_gdr_anywhere_is_a_problem_only_where_it_is_required():
    matrix = of(Job(gdr=False).text())
    assert transport.verdict(matrix).gdr is Gdr.NONE
    assert judged(matrix, Transport.ROCE) == []
    assert len(judged(matrix, Transport.ROCE, gdr=True)) == 2


def test_sends_without_gdr_are_explained_by_nccl_net_gdr_read():
    sends = [line.replace("/GDRDMA", "") if "[send]" in line else line for line in Job().lines()]
    problems = judged(of("\n".join([*sends, ""])))
    assert all("NCCL_NET_GDR_READ=1" in problem for problem in problems)
    assert len(problems) == 2


def test_missing_and_undeclared_hcas_are_named_by_host():
    matrix = of(Job().text())
    hcas = {"node0": ["mlx5_0", "mlx5_1", "mlx5_2"], "node1": ["mlx5_0"]}
    missing, undeclared = judged(matrix, hcas=hcas)
    assert missing.startswith("node0 mlx5_2: no channel between nodes uses it")
    assert "node1: rank 3" in undeclared
    assert "mlx5_1, wanted one of mlx5_0" in undeclared


def test_without_the_list_of_devices_the_link_layer_is_unknown():
    lines = [line for line in Job().lines() if "NET/IB : Using" not in line]
    matrix = of("\n".join([*lines, ""]))
    assert transport.verdict(matrix).transport is Transport.UNKNOWN
    (problem,) = transport.judge(matrix, Transport.ROCE, None, True)
    assert not problem.proven


def test_process_that_lists_two_sets_of_devices_is_unknown():
    line = Job().message(0, "NET/IB : Using [0]mlx5_9:1/IB [RO]; OOB eth0:192.0.2.1<0>")
    assert transport.verdict(of(line + "\n" + Job().text())).transport is Transport.UNKNOWN


def test_merged_device_is_named_by_its_parts():
    job = Job(version="2.27.3")
    lines = [line.replace("via NET/IB/0", "via NET/IB/2") for line in job.lines()]
    made = [
        job.message(rank, "NET/IB : Made virtual device [2] name=mlx5_0+mlx5_1 speed=1 ndevs=2")
        for rank in range(job.ranks)
    ]
    known, unnamed = of("\n".join([*made, *lines, ""])), of("\n".join([*lines, ""]))
    assert known.channels[0].hcas == ("mlx5_0", "mlx5_1")
    assert unnamed.channels[0].hcas == ()
    assert transport.verdict(unnamed).transport is Transport.ROCE


def test_list_of_devices_that_nccl_cut_ends_at_the_last_whole_one():
    job = Job()
    cut = [
        line.split(" [1]mlx5_1")[0] + " [1]mlx5_1:1/Ro" if "NET/IB : Using" in line else line
        for line in job.lines()
    ]
    channels = of("\n".join([*cut, ""])).channels
    assert {channel.hcas for channel in channels} == {("mlx5_0",), ()}


@pytest.mark.parametrize(
    ("shape", "device", "gdr", "network"),
    [
        ("Channel 00/0 : 0[0] -> 2[0] [send] via NET/IB/0(1)/GDRDMA", 0, True, "IB"),
        ("Channel 00/0 : 0[0] -> 2[0] [send] via NET/IB/1/GDRDMA(PCI)", 1, True, "IB"),
        ("Channel 00/1 : 0[0] -> 2[0] [send] via NET/IB/1(1)/GDRDMA(PCI)/Shared", 1, True, "IB"),
        ("Channel 00/0 : 9[1] -> 0[0] [receive] via NET/IB/0/GDRDMA/flush=None", 0, True, "IB"),
        ("Channel 00 : 0[1a000] -> 2[1b000] [send] via NET/IB/1/Shared", 1, False, "IB"),
        ("Channel 31/0 : 0[0] -> 2[0] [send] via NET/AWS Libfabric/3", 3, False, "AWS Libfabric"),
        ("Coll 00 : 0 [send] via COLLNET/SHARP/1/GDRDMA", 1, True, "SHARP"),
        ("CollNet 00 : 0 [send] via COLLNET/SHARP/1", 1, False, "SHARP"),
        ("CollNet 00/1 : 0 [receive] via COLLNET/SHARP/1/GDRDMA(PCI)", 1, True, "SHARP"),
    ],
)
def test_every_form_of_a_network_channel_is_read(shape, device, gdr, network):
    (channel,) = of(f"h:1:2 [0] NCCL INFO {shape}\n").channels
    assert (channel.device, channel.gdr, channel.network) == (device, gdr, network)


@pytest.mark.parametrize(
    "kind",
    [
        "P2P/direct pointer",
        "P2P/IPC/read",
        "P2P/IPC/CE",
        "P2P/CUMEM",
        "P2P/MNNVL/read",
        "P2P/indirect/3[3]/read",
        "SHM/direct/direct",
        "SHM/CE/direct",
        "direct shared memory",
    ],
)
def test_every_form_of_a_local_channel_is_read(kind):
    matrix = of(f"h:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via {kind}\n")
    ((name, count),) = matrix.members[0].local.items()
    assert (kind.startswith(name), count) == (True, 1)
    assert matrix.unreadable == (0, "")


@pytest.mark.parametrize(
    "shape",
    [
        "Channel 00/0 : 0[0] -> 1[1] via QUANTUM/0",
        "Channel 00/0 : 0[0] -> 2[0] [send] via NET/IB",
        "CollNet 00/0 : 0 [both] via COLLNET/SHARP/0",
    ],
)
def test_unknown_form_of_a_channel_is_could_not_tell(shape):
    matrix = of(Job().text() + f"h:1:2 [0] NCCL INFO {shape}\n")
    (problem,) = transport.judge(matrix, Transport.ROCE, None, True)
    assert not problem.proven
    assert shape in problem.message


def test_unknown_plugin_is_could_not_tell():
    matrix = of(Job(network="FasTrak").text())
    assert transport.verdict(matrix).transport is Transport.UNKNOWN
    (problem,) = transport.judge(matrix, Transport.ROCE, None, True)
    assert (problem.proven, "plugin FasTrak" in problem.remedy) == (False, True)


@pytest.mark.parametrize(
    "prefix",
    [
        "[rank3]:",
        "12: ",
        "[1,4]<stdout>:[4]: ",
        "2024-12-04T05:27:44.078Z ",
        "(RayTrainWorker pid=7, ip=192.0.2.7) ",
        "\x1b[36m(Worker pid=7)\x1b[0m ",
        "[2025-08-22 17:44:36] ",
        "worker-0 | ",
    ],
)
def test_prefixes_of_launchers_do_not_matter(prefix):
    text = "".join(f"{prefix}{line}\r\n" for line in Job().lines())
    assert of(text).channels == of(Job().text()).channels


def test_lines_that_lost_their_newline_are_told_apart():
    joined = "      ".join(Job().lines()) + "\n"
    assert of(joined).channels == of(Job().text()).channels


def test_several_files_are_one_job(tmp_path):
    job = Job()
    files = []
    for rank in range(job.ranks):
        files.append(tmp_path / f"nccl.{rank}.log")
        files[-1].write_text("".join(f"{line}\n" for step in job.rank(rank) for line in step))
    matrix = transport.read(files)
    assert matrix.channels == of(job.text()).channels
    assert judged(matrix, Transport.ROCE, gdr=True) == []


def test_ranks_without_a_line_are_named():
    job = Job(gpus=4)
    half = "".join(f"{line}\n" for line in job.lines() if line.startswith("node0"))
    matrix = of(half)
    assert matrix.absent == (4, 5, 6, 7)
    assert judged(matrix, Transport.ROCE, gdr=True, every_rank=False) == []
    (problem,) = transport.judge(matrix, Transport.ROCE, None, True)
    assert (problem.proven, problem.message[:17]) == (False, "ranks 4-7 of 8: n")


def test_second_communicator_counts_too():
    world = Job(nodes=1, gpus=2).text()
    other = Job(layer="RoCE").text().replace("commId 0x9d1", "commId 0x77")
    assert transport.verdict(of(world)).transport is Transport.P2P
    assert transport.verdict(of(world + other)).transport is Transport.ROCE


def test_communicator_that_is_not_finished_is_could_not_tell():
    text = Job().text() + Job().message(0, Job()._communicator(0, "Init START")) + "\n"
    (problem,) = transport.judge(of(text), Transport.ROCE, None, True)
    assert (problem.proven, "node0 gpu 0 (rank 0)" in problem.message) == (False, True)


def test_two_versions_in_one_job_are_a_problem():
    text = Job().text() + Job(version="2.18.3").text()
    assert "NCCL 2.18.3 and 2.21.5 in one job" in "".join(judged(of(text)))
    assert transport.verdict(of(text)).nccl_version is None


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("NCCL_IB_DISABLE set by environment to 1.", "`NCCL_IB_DISABLE set by environment to 1`"),
        ("NCCL_NET set by environment to Socket", "unset it, or set it to IB"),
        ("Failed to open libibverbs.so[.1]", "install libibverbs"),
        ("NCCL_IB_HCA set to ens1f0", "it must name devices, not network interfaces"),
        ("Failed to initialize NET plugin IBext_v9", "compare the plugin's version"),
    ],
)
def test_why_sockets_is_read_from_the_log(line, cause):
    problems = judged(of(Job(network="Socket", environment=(line,)).text()), Transport.IB)
    assert all(cause in problem for problem in problems)
    assert len(problems) == 2


def test_socket_beside_an_hca_is_a_problem_without_a_declared_transport():
    found = "NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:192.0.2.1<0>"
    matrix = of(Job(network="Socket", environment=(found,)).text())
    assert all("socket although NCCL found mlx5_0" in problem for problem in judged(matrix))
    assert judged(of(Job(network="Socket").text())) == []


def test_gdr_required_alone_refuses_sockets():
    assert len(judged(of(Job(network="Socket").text()), gdr=True)) == 2


@pytest.mark.parametrize("data", [b"", b"no such thing\n" * 9])
def test_file_without_nccl_lines_is_refused(data):
    with pytest.raises(UnreadableLogError, match="no line of NCCL's"):
        of(data)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (gzip.compress(Job().text().encode()), "compressed"),
        (Job().text().encode("utf-16"), "binary"),
        (bytes(range(256)) * 64, "binary"),
    ],
)
def test_file_that_is_no_text_is_refused(data, said):
    with pytest.raises(UnreadableLogError, match=said):
        of(data)


def test_hole_of_zeros_in_a_log_is_not_binary():
    assert of(b"\0" * 20 + b"\n" + Job().text().encode()).channels


def test_one_silent_file_among_others_is_could_not_tell(tmp_path):
    (tmp_path / "a.log").write_text(Job().text())
    (tmp_path / "b.log").write_text("")
    matrix = transport.read([tmp_path / "a.log", tmp_path / "b.log"])
    (problem,) = transport.judge(matrix, Transport.ROCE, None, True)
    assert (problem.proven, "b.log: no line" in problem.message) == (False, True)


def test_missing_file_and_directory_are_usage_errors(tmp_path):
    with pytest.raises(UsageError, match="no such file"):
        transport.read([tmp_path / "none"])
    with pytest.raises(UsageError, match="is a directory"):
        transport.read([tmp_path])


def test_absurd_numbers_are_not_believed():
    long = "9" * 5000
    text = f"h:1:2 [0] NCCL INFO comm 0x1 rank {long} nranks {long} cudaDev 0 - Init COMPLETE\n"
    huge = "h:1:2 [0] NCCL INFO comm 0x1 rank 1 nranks 999999999 cudaDev 0 - Init COMPLETE\n"
    assert of(text + huge).size == 0


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
    monkeypatch.setattr(nccl_log, "_CHUNK_BYTES", 1 << 12)
    monkeypatch.setattr(nccl_log, "_LINE_BYTES", 1 << 12)
    assert (
        of(b"x" * (1 << 16) + b"\n" + Job().text().encode()).channels == of(Job().text()).channels
    )


TRUNCATED = {path.stem: path.read_bytes() for path in sorted(FIXTURES.glob("*.log"))} | {
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


def proves_nothing_else(data, whole):
    """Return whether a part of a log proves what the whole does, or says that it does not know."""
    try:
        matrix = of(data)
    except UnreadableLogError:
        return True
    doubts = any(not problem.proven for problem in transport.judge(matrix, None, None, False))
    return doubts or transport.verdict(matrix).transport in (whole, Transport.UNKNOWN)


@settings(max_examples=1500, deadline=None)
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
