"""Runs over NCCL that fail as NCCL and torch say it, for tests of blame.

NCCL's line is that of github.com/NVIDIA/nccl/issues/1814 with the HCA that NCCL 2.22 and later add;
torch's words are those of github.com/tatsu-lab/stanford_alpaca/issues/207.
"""

import io
import tarfile

from tests.unit.helpers.accept_runs import job, say

from rdmaprov.acceptance.at_fault import run as blame
from rdmaprov.acceptance.ranks.plan import JobPlane
from rdmaprov.acceptance.ranks.rail_map import Place, RailMap
from rdmaprov.acceptance.ranks.run import JobRun, NodeRun
from rdmaprov.finding.finding import Finding

GPUS = 8
WATCHDOG = (
    "[rank{rank}]:[E1218 20:27:21.433063423 ProcessGroupNCCL.cpp:2168] [Rank {rank}] "
    "Process group watchdog thread terminated with exception: "
)
REMOTE_ERROR = (
    "NCCL error: remote process exited or there was a network error, NCCL version 2.27.5\n"
    "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting "
    "prematurely.\nLast error:\n"
)
TIMEOUT = (
    "[Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, "
    "OpType=ALLREDUCE, NumelIn=131072000, NumelOut=131072000, Timeout(ms)=600000) ran for 600081 "
    "milliseconds before timing out.\n"
)


def completion(one: int, other: int, rail: int, hca: str = "", status: int = 12) -> str:
    """Return NCCL's line of node `one` about a path to node `other`."""
    return (
        f"NET/IB : Got completion from peer 172.16.0.{other + 1}<44206> with status={status} "
        f"opcode=129 len=65536 vendor err 129 (Recv) localGid ::ffff:198.18.{rail}.{one + 1} "
        f"remoteGids::ffff:198.18.{rail}.{other + 1} hca {hca or f'mlx5_{rail}'}"
    )


def abort(node: NodeRun, rank: int, *words: str) -> None:
    node.errors = "".join(WATCHDOG.format(rank=rank) + REMOTE_ERROR + each + "\n" for each in words)
    node.ended = {rank: -6}


def time_out(node: NodeRun, rank: int) -> None:
    """Have torch's watchdog end a rank of a node, as it lost patience with others."""
    node.errors = WATCHDOG.format(rank=rank) + TIMEOUT.format(rank=rank)
    node.ended = {rank: -6}


def failed_run(nodes: int, gpus: int = GPUS) -> JobRun:
    """Return a run over NCCL that ended during its sweep, and nobody has said why."""
    names = tuple(f"n{index}" for index in range(nodes))
    planes = (JobPlane("all rails"),)
    ran = JobRun(job(nodes, nodes=names, per_node=gpus, backend="nccl", planes=planes, rounds=()))
    for index, name in enumerate(names):
        ran.nodes[name] = NodeRun(directory="/run/x", rc=1, left=())
        for rank in range(index * gpus, (index + 1) * gpus):
            say(ran, rank, "phase", phase="all rails: sweep")
            ran.nodes[name].ranks[rank] = {
                "communicator": 7,
                "entered": 500,
                "left": 499,
                "phase": "all rails: sweep",
                "process": "S",
            }
    return ran


def places(nodes: int, rails: int = GPUS, per_leaf: int = 0) -> RailMap:
    """Return where the addresses of such a fleet are."""
    addresses: dict[str, Place] = {f"172.16.0.{n + 1}": (f"n{n}", None) for n in range(nodes)}
    addresses |= {
        f"198.18.{rail}.{n + 1}": (f"n{n}", rail) for n in range(nodes) for rail in range(rails)
    }
    hcas = {(f"n{n}", f"mlx5_{rail}"): rail for n in range(nodes) for rail in range(rails)}
    counts = {f"n{n}": rails for n in range(nodes)}
    leaves = {f"n{n}": f"leaf{n // per_leaf}" for n in range(nodes)} if per_leaf else {}
    return RailMap(addresses, hcas, counts, leaves)


ALL_NODES = 8


def judge(ran, per_leaf=0, rails=GPUS):
    return blame.findings(ran, places(len(ran.nodes), rails, per_leaf))


def named(found: list[Finding]):
    return {(each.level, each.nodes, each.rail) for each in found}


def all_waited(ran, *others):
    """Let torch's watchdog end a rank of each node that did not say anything else."""
    for index, (name, node) in enumerate(ran.nodes.items()):
        if name not in others and not (node.errors or node.ended):
            time_out(node, index * GPUS)


def packed(*texts: str, name: str = "nccl.n.{}") -> bytes:
    """Return logs as a node sends them."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        for number, text in enumerate(texts):
            member = tarfile.TarInfo(name.format(number))
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    return data.getvalue()
