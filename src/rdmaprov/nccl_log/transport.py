"""Which transport NCCL used between nodes, proven by its own logs.

`read_matrix` turns logs into a matrix (rank, channel, direction → transport, HCA, GPUDirect RDMA,
peer), `verdict` sums it up, `judge` names what is not as it was declared.

Whether NCCL reduced in the switches (CollNet, by SHARP), and what kept it from that: a channel `via
COLLNET/SHARP` is listed before the plugin asks for an aggregation tree. With none, NCCL warns that
it cannot initialize CollNet, and uses rings (github.com/NVIDIA/nccl, src/transport.cc,
ncclTransportCollNetCheck). So a channel alone is no evidence.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rdmaprov.nccl_log import reader
from rdmaprov.nccl_log.judgement import judge
from rdmaprov.nccl_log.matrix import Gdr, Matrix, Transport, TransportVerdict

__all__ = ["Gdr", "Transport", "judge", "read_matrix", "verdict"]
# By hint, the sharpest first: what explains it and what to do.
_CAUSES = {
    "sharp_init": "no aggregation manager gave a job: check sharp_am beside the subnet manager (or "
    "UFM), its trees for this subnet, and jobs that hold them. Run on a node: sharp_hello",
    "sharp_group": "the trees gave no group: another job holds them, or the switches cannot. Read "
    "the log of sharp_am",
    "collnet_nodes": "the communicator has too few nodes: lower NCCL_COLLNET_NODE_THRESHOLD",
    "sharp_size": "the group is too small: lower NCCL_SHARP_GROUP_SIZE_THRESH",
    "sharp_types": "the switches do not reduce this data type",
    "collnet_devices": "the SHARP plugin found no device: check NCCL_IB_HCA and the plugin",
    "collnet_failed": "CollNet could not be set up: read NCCL's log before that line",
}
_NOT_ON = "CollNet is off: no rank has NCCL_COLLNET_ENABLE=1. Run rdmaprov apply --roles nccl, and "
_NOT_ON += "look for what overrides /etc/nccl.conf"
_NO_PLUGIN = (
    "no rank loaded the SHARP plugin: have libnccl-net.so of nccl-rdma-sharp-plugins (HPC-X) in "
    "the ranks' LD_LIBRARY_PATH"
)
_NOT_CHOSEN = "CollNet was set up, and NCCL expects more of another algorithm for this size: "
_NOT_CHOSEN += "compare with NCCL_ALGO=CollNetDirect"
# Between nodes NVLS reduces by CollNet, where it is there (src/graph/tuning.cc).
SWITCH_ALGORITHMS = frozenset({"collnetdirect", "collnetchain", "nvls"})


def read_matrix(paths: Iterable[Path]) -> Matrix:
    """Return what the logs of one job say; a file may hold any number of ranks, `-` is stdin.

    Time is linear in the logs' size, memory in the number of the job's channels.

    Raises:
        UsageError: a file is missing or is a directory.
        UnreadableLogError: a file is binary, or none has a line of NCCL's.
    """
    return reader.make_matrix(*reader.read_logs(paths))


def verdict(matrix: Matrix) -> TransportVerdict:
    """Return the verdict on the matrix; without evidence, UNKNOWN."""
    versions = matrix.versions
    return TransportVerdict(
        transport=_transport(matrix),
        gdr=_gdr(matrix),
        hcas=tuple(sorted({name for channel in matrix.channels for name in channel.hcas})),
        sharp=is_connected(matrix),
        nccl_version=versions[0] if len(versions) == 1 else None,
    )


def _transport(matrix: Matrix) -> Transport:
    if not matrix.channels:
        return Transport.P2P if matrix.local_only else Transport.UNKNOWN
    kinds = {channel.transport for channel in matrix.channels}
    if len(kinds - {Transport.UNKNOWN}) > 1:
        return Transport.MIXED
    return Transport.UNKNOWN if Transport.UNKNOWN in kinds else kinds.pop()


def _gdr(matrix: Matrix) -> Gdr:
    if not matrix.channels:
        return Gdr.NONE if matrix.local_only else Gdr.UNKNOWN
    count = Counter(channel.gdr for channel in matrix.channels)
    if not count[False]:
        return Gdr.ALL
    return Gdr.SOME if count[True] else Gdr.NONE


@dataclass(frozen=True)
class CollNetObstacle:
    """What kept NCCL from reducing in the switches."""

    seen: str  # the line that says it, with its host; empty if none does
    cause: str  # the likely cause, and what to do


def is_connected(matrix: Matrix) -> bool:
    """Return whether CollNet has channels, and no process says that it could not be set up."""
    has_failed = any(_hints(matrix, "collnet_failed"))
    return any(channel.collnet for channel in matrix.channels) and not has_failed


def obstacle(matrix: Matrix) -> CollNetObstacle:
    """Return the likely cause that CollNet was not used."""
    for kind, cause in _CAUSES.items():
        for seen in _hints(matrix, kind):
            return CollNetObstacle(seen, cause)
    if not any(text.endswith("to 1") for text in _hints(matrix, "collnet")):
        return CollNetObstacle(next(_hints(matrix, "collnet"), ""), _NOT_ON)
    return CollNetObstacle("", _NOT_CHOSEN if is_connected(matrix) else _NO_PLUGIN)


def _hints(matrix: Matrix, kind: str) -> Iterator[str]:
    for process in matrix.processes:
        if kind in process.hints:
            yield f"{process.host or '?'}: {process.hints[kind]}"
