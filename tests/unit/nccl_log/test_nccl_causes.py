"""The table of causes: each is found by words that NCCL, a plugin or torch writes."""

import pytest

from rdmaprov.nccl_log.causes import UNKNOWN, causes, find_cause, last_error
from rdmaprov.nccl_log.troubles import TroubleTally

# By cause: lines as in NCCL's source, in torch's, or in public reports; a WARN has its place first.
SAID = {
    "memlock": "Call to ibv_create_cq failed with error Cannot allocate memory",
    "fabric-manager": "init.cc:1 NCCL WARN Cuda failure 802 'system not yet initialized'",
    "nvls": "nvls.cc:254 NCCL WARN Cuda failure 1 'invalid argument'",
    "imex": "mnnvl.cc:74 NCCL WARN MNNVL (cliqueSize 8) is available but not working",
    "driver-old": "The NVIDIA driver on your system is too old (found version 12080).",
    "version": "Mismatched NCCL version detected : rank 0 version 22705 rank 1 version 22603",
    "plugin-differs": "Detected mixed local Net device counts across ranks (min 4, max 8).",
    "rank-count": "Bootstrap Root : mismatch in rank count from procs 16 : 8",
    "rank-twice": "Bootstrap Root : rank 1 of 8 ranks has already checked in",
    "sizes": "Message truncated : received 1024 bytes instead of 256",
    "duplicate-gpu": "Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 60",
    "no-interface": "Bootstrap : no socket interface found",
    "no-network": "plugin/net.cc:579 NCCL WARN Error: network AWS Libfabric not found.",
    "setting": 'Unrecognized element token "Nope" when parsing "Nope"',
    "umad": "ibwarn: can't open UMAD port: No such file: /dev/infiniband/umad0",
    "hca-open": "NET/IB : Unable to open device mlx5_3",
    "efa": "NET/OFI aws-ofi-nccl initialization failed",
    "efa-peer": "NET/OFI Request 1 completed (Unresponsive receiver. Peer EFA addr: efa://[fe80::2]:0:2)",
    "ofi": "NET/OFI Request 0x7f completed with error. RC: 21. Error: unknown error",
    "ece": "Call to ibv_set_ece failed with error Invalid argument errno 22",
    "ucx": "ucx_plugin.c:498 NCCL WARN Failed: UCX error ucx_plugin.c:498 '-5' Invalid parameter",
    "shm": "Error while creating shared memory segment /dev/shm/nccl-v2jS20 (size 9637888)",
    "files": "Call to socket failed : Too many open files",
    "oom": "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
    "peer": "shm.cc:590 NCCL WARN Cuda failure 217 'peer access is not supported between these'",
    "hidden-gpu": "p2p.cc:275 NCCL WARN Cuda failure 101 'invalid device ordinal'",
    "ipc": "p2p.cc:235 NCCL WARN hipIpcGetMemHandle failed : invalid argument",
    "cuda": "include/alloc.h:125 NCCL WARN Cuda failure 700 'an illegal memory access'",
    "event-access": "NET/IB : mlx5_0:1 Got async event : local access violation work queue error",
    "event-fatal": "NET/IB : mlx5_0:1 async fatal event on CQ (0x7f): CQ error",
    "event-port": "NET/IB : mlx5_1:1 Got non-fatal async event: port error(10)",
    "event-gid": "NET/IB : Got async event : GID table change",
    "signal": "Root cause: rank 1 ended by signal 9 (SIGKILL)",
    "connect": "socketPollConnect: connect to 192.0.2.1<5> returned Connection refused, exceeded",
    "closed": "socketProgress: Connection closed by n1",
    "path-retry": "NET/IB: Fatal error. Detected 2 failed devices out of 2 devices",
    "timeout": "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=2, OpType=ALLREDUCE",
    "watchdog": "ProcessGroupNCCL's watchdog got stuck for 600 seconds without making progress",
    "remote": "ncclRemoteError: A call failed possibly due to a network error",
    "proxy": "[Proxy Service 1] Failed to execute operation Connect from rank 9, retcode 2",
    "result": "proxy.cc:910 -> 6 [Progress Thread]",
    "advice": 'Missing "iommu=pt" from kernel command line which can lead to system instablity',
    "clients": "torch.distributed.DistStoreError: Timed out after 16 seconds. 1/2 clients joined.",
}
ORDINARY = [
    "init.cc:1 NCCL WARN NUMA balancing is enabled",
    "comm 0x1 rank 0 nranks 2 cudaDev 0 busId 1000 - Abort COMPLETE",
    "ras/client_support.cc:159 NCCL WARN Call to bind failed: Address already in use",
    "sharp_plugin.c:382 NCCL WARN SHARP int8,uint8,bfloat16 Datatypes not supported",
    "NET/IB : mlx5_1:1 Got non-fatal async event: port active(9)",
    "graph/xml.cc:1 NCCL WARN Could not find a path for pattern 4, falling back to simple order",
    "group.cc:71 -> 7 [Async thread]",
    "",
]


@pytest.mark.parametrize("cause", [name for name in causes() if name != UNKNOWN])
def test_each_cause_is_found_by_its_words(cause):
    found = find_cause(SAID[cause])
    assert found is not None
    assert found.id == cause
    assert "{" not in found.meaning(SAID[cause])


@pytest.mark.parametrize("words", ORDINARY)
def test_ordinary_words_are_no_cause(words):
    assert find_cause(words) is None


@pytest.mark.parametrize("name", ["Last error", "Last RCCL warning"])
def test_last_error_is_read_to_its_end(name):
    said = f"[rank3]: NCCL error in: x.cpp:93\n[rank3]: {name}:\n[rank3]: Duplicate GPU detected\n"
    assert last_error(said) == "Duplicate GPU detected"
    assert last_error("no such text") == ""
    assert last_error(f"{name}:\nException raised from checkTimeout") == ""


ROOT = "Root Cause (first observed failure):"
LONG = "9" * 5000


@pytest.mark.parametrize(
    "lines",
    [
        (ROOT, "  exitcode  : N/A"),
        (ROOT, f"  exitcode  : {LONG}"),
        (ROOT, "  rank      : <N/A>", "  exitcode  : -9"),
        (ROOT, f"  rank      : {LONG}", "  exitcode  : -9"),
        ("[rank0]: x", f"[PG ID 0 PG GUID 0 Rank 0] last enqueued work: {LONG}"),
    ],
    ids=["no number", "long code", "no rank", "long rank", "long work"],
)
def test_numbers_that_are_none_are_passed_over(lines):
    tally = TroubleTally()
    for each in lines:
        tally.add_text(each.encode())
    assert (list(tally.troubles), tally.enqueued) == ([], {})
