"""Completions with error: each form that NCCL has written, and what only looks like one.

The lines marked with an issue were posted there; the others follow the calls of NCCL's source at
the tag that is named.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.helpers.nccl_jobs import Job, of

from rdmaprov.nccl_log.completion import CompletionError, find_completions, parse_completion

GIDS = ("::ffff:29.87.88.182", "::ffff:29.87.4.221")

# The form → HCA, local GID, remote GID, peer, status, vendor_err, request.
FORMS = {
    # v2.8.4-1, as in github.com/EleutherAI/gpt-neox, its README of Lambda's cloud
    "NET/IB : Got completion with error 12, opcode 0, len 0, vendor err 129": (
        "", "", "", "", 12, 129, "",
    ),
    # v2.17.1-1
    "NET/IB : Got completion from peer 10.42.0.2<47534> with error 5, opcode 48, len 32764,"
    " vendor err 244": ("", "", "", "10.42.0.2", 5, 244, ""),
    # v2.18.6-1
    "NET/IB : Got completion from peer 10.5.0.34<33956> with error 5, opcode 0, len 1, vendor err"
    " 244 (Recv) localGid ::ffff:10.6.0.35 remoteGid ::ffff:10.5.0.34": (
        "", "::ffff:10.6.0.35", "::ffff:10.5.0.34", "10.5.0.34", 5, 244, "Recv",
    ),
    # NVIDIA/nccl#1814, of nccl-rdma-sharp-plugins
    "NET/IB : Got completion from peer 172.36.143.59<44206> with status=12 opcode=129 len=65536"
    " vendor err 129 (Recv) localGid ::ffff:29.87.88.182 remoteGids::ffff:29.87.4.221": (
        "", *GIDS, "172.36.143.59", 12, 129, "Recv",
    ),
    # v2.24.3-1 on InfiniBand: no GIDs
    "NET/IB: Got completion from peer 7.247.232.172<39936> with status=12 opcode=129 len=0 vendor"
    " err 129 (Recv) hca mlx5_15": ("mlx5_15", "", "", "7.247.232.172", 12, 129, "Recv"),
    # NVIDIA/nccl#1664
    "NET/IBP:Got completion from peer 7.6.13.83<36315> with status=12 opcode=32698 len=32696 vendor"
    " err 129 (Send)": ("", "", "", "7.6.13.83", 12, 129, "Send"),
    # v2.28.9-1
    "NET/IB: Got completion from peer 10.0.0.2<4791> with status=IBV_WC_RETRY_EXC_ERR(12)"
    " opcode=IBV_WC_SEND(0) reqSize=0 vendor_err=129 req_type=Recv localGid ::ffff:10.0.0.1"
    " remoteGids::ffff:10.0.0.2 hca mlx5_2": (
        "mlx5_2", "::ffff:10.0.0.1", "::ffff:10.0.0.2", "10.0.0.2", 12, 129, "Recv",
    ),
    # NVIDIA/nccl#2397, of 2.29 or later
    "NET/IB: Got completion from peer 10.153.235.13<40554> with status=IBV_WC_RETRY_EXC_ERR(12)"
    " opcode=IBV_WC_RECV_RDMA_WITH_IMM(129) vendor_err=129  localGid ::ffff:1.1.2.2"
    " remoteGids::ffff:1.1.1.4 hca mlx5_1": (
        "mlx5_1", "::ffff:1.1.2.2", "::ffff:1.1.1.4", "10.153.235.13", 12, 129, "",
    ),
    # v2.30.7-1, gin.cc
    "NET/IB/GIN: Got completion from peer node20<57713> with status=4 opcode=0 len=0 vendor err 81"
    " (IPut) hca mlx5_0": ("mlx5_0", "", "", "node20", 4, 81, "IPut"),
    # IPv6 on the control network
    "NET/IB: Got completion from peer fd00::2%eth0<4791> with status=12 opcode=0 len=0 vendor err"
    " 129 (Send) localGid fe80::4ebb:47ff:fe2e:5fa6 remoteGidsfe80::32c5:99ff:febe:6b46 hca ro1": (
        "ro1", "fe80::4ebb:47ff:fe2e:5fa6", "fe80::32c5:99ff:febe:6b46", "fd00::2%eth0",
        12, 129, "Send",
    ),
}  # fmt: skip

LINE = (
    "NET/IB: Got completion from peer 10.0.0.2<4791> with status=12 opcode=0 len=0 vendor err 129"
)


@pytest.mark.parametrize("message", FORMS)
def test_a_form_of_nccl_s_is_read(message):
    assert parse_completion(message.encode()) == CompletionError("", None, *FORMS[message])


@pytest.mark.parametrize(
    "message",
    [
        "",
        "NET/IB: ncclIbTest: Got CQE with error (devIndex=0, req=0x7fccfc04e028, qp_num=26257)",
        "HINT: In many cases this error occurs when the NCCL_IB_TIMEOUT is set too short.",
        "Got completion with error 12",
        "NET/IB: Got completion from peer 10.0.0.2<4791> with stat",
    ],
)
def test_another_message_is_no_completion(message):
    assert parse_completion(message.encode()) is None


@given(st.text(max_size=200))
def test_any_text_is_read_without_an_error(text):
    assert all(found.status >= 0 for found in find_completions(text))
    found = parse_completion(f"{LINE}{text}".encode(errors="replace"))
    assert found is None or found.status == 12


def test_the_error_that_torch_raises_is_read():
    text = (
        "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting"
        f" prematurely.\nLast error:\n{LINE} (Send) hca mlx5_1\nException raised from check"
    )
    [found] = find_completions(text, "node7", 12)
    assert (found.host, found.rank, found.hca, found.peer) == ("node7", 12, "mlx5_1", "10.0.0.2")


def test_a_rank_s_errors_are_in_the_matrix_once():
    job = Job(nodes=2, gpus=2)
    warning = job.message(2, f"{LINE} (Send) hca mlx5_0").replace("NCCL INFO", "NCCL WARN")
    [found] = of(f"{job.text()}{warning}\n{warning}\n").errors
    assert found == CompletionError("node1", 2, "mlx5_0", "", "", "10.0.0.2", 12, 129, "Send")


def test_a_time_and_a_place_before_the_warning_do_not_matter():
    text = (
        "[2026-03-03 12:11:38] node0:185303:186751 [1] transport/net_ib.cc:2453 NCCL WARN "
        f"{LINE} (Send) hca mlx5_1\n"
    )
    [found] = of(text).errors
    assert (found.host, found.rank, found.hca) == ("node0", None, "mlx5_1")


def test_a_line_that_is_cut_says_nothing():
    assert (
        of(f"node0:1:2 [0] NCCL INFO Using network IB\nnode0:1:2 [0] NCCL WARN {LINE}").errors == ()
    )


def test_endless_different_errors_do_not_grow_the_matrix_without_end():
    lines = (
        f"node0:1:2 [0] NCCL WARN {LINE.replace('<4791>', '')} (Send) hca mlx5_{number}\n"
        for number in range(5000)
    )
    assert len(of("".join(lines)).errors) == 1024


def test_a_flush_is_told_from_its_cause():
    cause, follows = find_completions(f"{LINE}\n{LINE.replace('status=12', 'status=5')}")
    assert (cause.is_flush, follows.is_flush) == (False, True)
    assert "no answer from the peer" in cause.meaning
