"""Verdicts and judgements on whole jobs, in the formats of every version of NCCL."""

from pathlib import Path

import pytest
from tests.tables import cases
from tests.unit.helpers.nccl_jobs import VERSIONS, Job, judge, of

from rdmaprov.nccl_log import transport
from rdmaprov.nccl_log.transport import Gdr, Transport


@pytest.mark.parametrize("version", VERSIONS)
def test_single_node_of_every_version_is_p2p(version):
    matrix = of(Job(version=version, nodes=1, gpus=4).text())
    assert transport.verdict(matrix).transport is Transport.P2P
    assert judge(matrix) == []
    assert "no channel leaves a node" in judge(matrix, Transport.IB)[0]


@pytest.mark.parametrize("version", VERSIONS)
def test_sockets_of_every_version_fail_with_the_cause(version):
    matrix = of(Job(version=version, network="Socket").text())
    assert transport.verdict(matrix).transport is Transport.SOCKET
    problems = judge(matrix, Transport.ROCE, gdr=True)
    assert [p.split(" on ")[1].split(":")[0] for p in problems] == ["node0", "node1"]
    assert "No device found" in problems[0]
    assert "ibv_devinfo" in problems[0]


def test_channel_has_rank_hca_direction_and_peer():
    matrix = of(Job(channels=1).text())
    assert [str(channel) for channel in matrix.channels] == [
        "rank 0 (node0 gpu 0) channel 00 receive from rank 3 via mlx5_0",
        "rank 1 (node0 gpu 1) channel 00 send to rank 2 via mlx5_1",
        "rank 2 (node1 gpu 0) channel 00 receive from rank 1 via mlx5_0",
        "rank 3 (node1 gpu 1) channel 00 send to rank 0 via mlx5_1",
    ]


def test_mixed_transports_name_the_odd_rank():
    matrix = of(Job(networks={3: "Socket"}).text())
    assert transport.verdict(matrix).transport is Transport.MIXED
    (problem,) = judge(matrix)
    assert problem.startswith("rank 3 on node1: socket on 2 channels between nodes, others roce")


def test_one_rank_without_gdr_is_a_problem_that_names_its_hca():
    matrix = of(Job(without_gdr=frozenset({2})).text())
    assert transport.verdict(matrix).gdr is Gdr.SOME
    (problem,) = judge(matrix)
    assert problem.startswith("rank 2 on node1: no GPUDirect RDMA on 2 of 4 channels")
    assert "mlx5_0" in problem


def test_no_gdr_anywhere_is_a_problem_only_where_it_is_required():
    matrix = of(Job(gdr=False).text())
    assert transport.verdict(matrix).gdr is Gdr.NONE
    assert judge(matrix, Transport.ROCE) == []
    assert len(judge(matrix, Transport.ROCE, gdr=True)) == 2


def test_sends_without_gdr_are_explained_by_nccl_net_gdr_read():
    sends = [line.replace("/GDRDMA", "") if "[send]" in line else line for line in Job().lines()]
    problems = judge(of("\n".join([*sends, ""])))
    assert all("NCCL_NET_GDR_READ=1" in problem for problem in problems)
    assert len(problems) == 2


def test_missing_and_undeclared_hcas_are_named_by_host():
    matrix = of(Job().text())
    hcas = {"node0": ["mlx5_0", "mlx5_1", "mlx5_2"], "node1": ["mlx5_0"]}
    undeclared, missing = judge(matrix, hcas=hcas)
    assert missing.startswith("node0 mlx5_2: no channel between nodes uses it")
    assert "node1: rank 3" in undeclared
    assert "mlx5_1, expected one of mlx5_0" in undeclared


def test_hca_that_most_hosts_leave_idle_accuses_none_of_them():
    """One host without mlx5_2 leaves the others a channel less; which HCA has none is by chance."""
    matrix = of(Job(nodes=4).text())
    hcas = {f"node{n}": ["mlx5_0", "mlx5_1", "mlx5_3" if n == 2 else "mlx5_2"] for n in range(4)}
    every, odd = judge(matrix, hcas=hcas)
    assert every.startswith("mlx5_2 of 3 of 4 hosts: no channel between nodes uses it")
    assert odd.startswith("node2 mlx5_3: no channel between nodes uses it")


def test_ranks_without_a_line_are_named():
    matrix = of("".join(f"{line}\n" for line in Job(gpus=4).lines() if line.startswith("node0")))
    assert matrix.absent == (4, 5, 6, 7)
    assert judge(matrix, Transport.ROCE, gdr=True, every_rank=False) == []
    (problem,) = transport.judge(matrix, Transport.ROCE, None, True)
    assert (problem.proven, problem.what[:17]) == (False, "ranks 4-7 of 8: n")


def test_second_communicator_counts_too():
    world = Job(nodes=1, gpus=2).text()
    other = Job(layer="RoCE").text().replace("commId 0x9d1", "commId 0x77")
    assert transport.verdict(of(world)).transport is Transport.P2P
    assert transport.verdict(of(world + other)).transport is Transport.ROCE


def test_communicator_that_is_not_finished_is_could_not_tell():
    text = Job().text() + Job().message(0, Job()._communicator(0, "Init START")) + "\n"
    (problem,) = transport.judge(of(text), Transport.ROCE, None, True)
    assert (problem.proven, "node0 gpu 0 (rank 0)" in problem.what) == (False, True)


def test_two_versions_in_one_job_are_a_problem():
    text = Job().text() + Job(version="2.18.3").text()
    assert "NCCL 2.18.3 and 2.21.5 in one job" in "".join(judge(of(text)))
    assert transport.verdict(of(text)).nccl_version is None


@pytest.mark.parametrize(("line", "cause"), cases(__file__, "why_sockets_is_read_from_the_log"))
def test_why_sockets_is_read_from_the_log(line, cause):
    problems = judge(of(Job(network="Socket", environment=(line,)).text()), Transport.IB)
    assert all(cause in problem for problem in problems)
    assert len(problems) == 2


def test_socket_beside_an_hca_is_a_problem_without_a_declared_transport():
    found = "NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:192.0.2.1<0>"
    matrix = of(Job(network="Socket", environment=(found,)).text())
    assert all("socket although NCCL found mlx5_0" in problem for problem in judge(matrix))
    assert judge(of(Job(network="Socket").text())) == []


def test_gdr_required_alone_refuses_sockets():
    assert len(judge(of(Job(network="Socket").text()), gdr=True)) == 2


# --- the plugin of nccl-rdma-sharp-plugins under a newer NCCL --------------------------------


def through_plugin(said):
    job = Job(version="2.26.1")
    lines = [line.replace("via NET/IB/", "via NET/NCCL RDMA Plugin v8/") for line in job.lines()]
    words = [job.message(rank, f"P2P plugin {said}") for rank in range(job.ranks) if said]
    return "\n".join([*words, *lines, ""])


def test_the_plugins_first_interface_has_no_number():
    """`Loaded net plugin NCCL RDMA Plugin (v4)`: tests/fixtures/nccl/plugin-ucx-rccl.log."""
    text = through_plugin("IB").replace("NCCL RDMA Plugin v8", "NCCL RDMA Plugin")
    assert transport.verdict(of(text)).transport is Transport.ROCE


@pytest.mark.parametrize("said", ["v8 IBext_v8", "IBext", "IB", ""])
def test_rdma_plugin_is_verbs_if_its_process_says_so(said):
    """NVIDIA/nccl-tests#319 has `P2P plugin v8 IBext_v8`, then `via NET/NCCL RDMA Plugin v8/1`."""
    matrix = of(through_plugin(said))
    assert transport.verdict(matrix).transport is Transport.ROCE
    assert judge(matrix, Transport.ROCE, gdr=True) == []


def test_rdma_plugin_by_ucx_is_not_known_to_be_verbs():
    assert transport.verdict(of(through_plugin("UCX"))).transport is Transport.UNKNOWN


def test_rdma_plugin_without_a_list_of_devices_is_unknown():
    lines = through_plugin("v8 IBext_v8").splitlines()
    text = "\n".join([*(line for line in lines if "NET/IB : Using" not in line), ""])
    assert transport.verdict(of(text)).transport is Transport.UNKNOWN


# --- a run that failed before its channels, and NVLink domains -------------------------------

HCAS = {"node0": ["mlx5_0", "mlx5_1"], "node1": ["mlx5_0", "mlx5_1"]}


def mismatches(text, **how):
    return transport.judge(of(text), Transport.ROCE, HCAS, True, **how)


def test_a_job_that_failed_before_its_channels_accuses_no_hca():
    lines = [line for line in Job().lines() if "Channel" not in line and "Connected" not in line]
    found = mismatches("\n".join([*(line for line in lines if "COMPLETE" not in line), ""]))
    assert found
    assert not [one for one in found if one.proven]


def test_a_host_whose_log_is_missing_is_unknown_and_named_once():
    lines = [line for line in Job().lines() if not line.startswith("node1")]
    found = mismatches("\n".join([*lines, ""]))
    assert not [one for one in found if one.proven]
    assert [one.node for one in found if one.node] == ["node1"]


def test_a_host_whose_log_was_cut_is_unknown():
    """Its first channel is there, and uses one of two HCAs."""
    lines = list(Job().lines())
    own = [line for line in lines if line.startswith("node1:101") and "NET/" in line]
    cut = own.index(next(line for line in own if "via NET/" in line)) + 1
    kept = [line for line in lines if not line.startswith("node1")]
    assert not [one for one in mismatches("\n".join([*kept, *own[:cut], ""])) if one.proven]


def test_a_missing_hca_of_a_whole_log_names_its_host():
    hcas = {**HCAS, "node1": [*HCAS["node1"], "mlx5_2"]}
    [found] = transport.judge(of(Job().text()), Transport.ROCE, hcas, True)
    assert (found.node, found.proven) == ("node1", True)


def test_inside_one_nvlink_domain_no_channel_needs_to_leave_a_node():
    rack = Job(nodes=1, gpus=4).text()
    assert [one.what for one in mismatches(rack) if one.proven]
    assert mismatches(rack, one_domain=True) == []


def test_channels_that_leave_a_node_of_one_domain_are_judged():
    """With NCCL_MNNVL_ENABLE=0, or where NVLink between nodes does not work."""
    found = mismatches(Job(network="Socket").text(), one_domain=True)
    assert any("socket" in one.what for one in found)


FIXTURES = Path(__file__).resolve().parents[2] / "fixtures/nccl"
HEAD = "gpu36:20775:20807 [0] "
INIT = "NCCL WARN NET/IB : SHARP coll init error: Cannot create SHARP job(-11)\n"
FAILED = "NCCL WARN Cannot initialize CollNet, using point-to-point network instead\n"


def test_channels_of_a_job_in_the_switches():
    matrix = transport.read_matrix([FIXTURES / "sharp-2.23-hang.log"])
    assert transport.is_connected(matrix)
    assert transport.verdict(matrix).sharp


def test_channels_that_could_not_be_set_up_are_no_proof(tmp_path: Path):
    """As in nccl-tests#311, whose failing runs list the same channels before."""
    log = tmp_path / "log"
    text = (FIXTURES / "sharp-2.23-hang.log").read_text()
    log.write_text(f"{text}{HEAD}sharp_plugin.c:365 {INIT}{HEAD}transport.cc:384 {FAILED}")
    matrix = transport.read_matrix([log])
    assert not transport.verdict(matrix).sharp
    why = transport.obstacle(matrix)
    assert why.seen == "gpu36: NET/IB : SHARP coll init error: Cannot create SHARP job(-11)"
    assert why.cause.startswith("no aggregation manager gave a job")


@pytest.mark.parametrize(("line", "cause"), cases(__file__, "likely_cause"))
def test_likely_cause(tmp_path: Path, line: str, cause: str):
    """Lines of nccl-rdma-sharp-plugins#151 and its src/sharp_plugin.c, and NCCL's src/init.cc."""
    log = tmp_path / "log"
    log.write_text(f"{HEAD}{line}\n")
    assert transport.obstacle(transport.read_matrix([log])).cause.startswith(cause)
