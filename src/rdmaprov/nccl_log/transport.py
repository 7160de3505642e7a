"""Which transport NCCL used between nodes, proven by its own logs.

`read_matrix` turns logs into a matrix (rank, channel, direction → transport, HCA, GPUDirect RDMA,
peer), `verdict` sums it up, `judge` names what is not as it was declared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from rdmaprov.nccl_log import collnet, reader, resolve
from rdmaprov.nccl_log.judgement import judge
from rdmaprov.nccl_log.matrix import Channel, Gdr, Matrix, Transport, TransportVerdict

__all__ = [
    "Channel",
    "Gdr",
    "Matrix",
    "Transport",
    "TransportVerdict",
    "judge",
    "read_matrix",
    "verdict",
]


def read_matrix(paths: Iterable[Path]) -> Matrix:
    """Return what the logs of one job say; a file may hold any number of ranks, `-` is stdin.

    Time is linear in the logs' size, memory in the number of the job's channels.

    Raises:
        UsageError: a file is missing or is a directory.
        UnreadableLogError: a file is binary, or none has a line of NCCL's.
    """
    return resolve.make_matrix(*reader.read_logs(paths))


def verdict(matrix: Matrix) -> TransportVerdict:
    """Return the verdict on the matrix; without evidence, UNKNOWN."""
    versions = matrix.versions
    return TransportVerdict(
        transport=_transport(matrix),
        gdr=_gdr(matrix),
        hcas=tuple(sorted({name for channel in matrix.channels for name in channel.hcas})),
        sharp=collnet.is_connected(matrix),
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
