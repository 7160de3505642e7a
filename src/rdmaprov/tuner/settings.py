"""Settings of NCCL that are worth a measurement, each against its defaults.

A setting of a whole fleet is an environment variable that all collectives of all sizes get. A
setting of a size is an algorithm, a protocol and a number of channels, which a tuner plugin gives
to some sizes only; to be measured, it is an environment variable for the time of one job.
"""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from rdmaprov.errors import UsageError

# They take NCCL's choice by size away from it; ClusterMAX asks that they are not set.
NEVER_FLEET_WIDE = (
    "NCCL_ALGO",
    "NCCL_PROTO",
    "NCCL_MIN_NCHANNELS",
    "NCCL_MAX_NCHANNELS",
    "NCCL_MIN_CTAS",
    "NCCL_MAX_CTAS",
)
# NCCL's names for NCCL_ALGO and NCCL_PROTO → those of the tuner file.
ALGORITHMS = {"Ring": "ring", "Tree": "tree", "NVLSTree": "nvls_tree"}
PROTOCOLS = {"LL": "ll", "LL128": "ll128", "Simple": "simple"}


@dataclass(frozen=True)
class NcclSetting:
    """One setting.

    Args:
        algorithm: of a size, as NCCL_ALGO has it; empty for a setting of the whole fleet.
    """

    name: str
    environment: Mapping[str, str] = field(default_factory=dict, hash=False)
    algorithm: str = ""
    protocol: str = ""
    channels: int = 0

    @property
    def is_of_a_size(self) -> bool:
        """Return whether a tuner file can have it for some sizes only."""
        return bool(self.algorithm)


DEFAULTS = NcclSetting("NCCL's defaults")


def fleet_setting(name: str, **environment: str) -> NcclSetting:
    """Return a setting of the whole fleet.

    Raises:
        UsageError: it has a variable that no fleet should have.
    """
    for variable in environment:
        if variable in NEVER_FLEET_WIDE:
            raise UsageError(
                f"{variable} for a whole fleet takes NCCL's choice by size away from it",
                "Leave it out; a tuner file sets algorithms by size.",
            )
    return NcclSetting(name, environment)


def size_setting(algorithm: str, protocol: str, channels: int) -> NcclSetting:
    """Return a setting of some sizes. Its channels are always given.

    NVIDIA's example plugin asks for one channel where a line has none (docs/tune.md).
    """
    environment = {
        "NCCL_ALGO": algorithm,
        "NCCL_PROTO": protocol,
        "NCCL_MIN_NCHANNELS": str(channels),
        "NCCL_MAX_NCHANNELS": str(channels),
    }
    name = f"{algorithm}, {protocol}, {channels} channels"
    return NcclSetting(name, environment, algorithm, protocol, channels)


def usual_settings(
    rdma: bool, nvls: bool, channels: tuple[int, ...] = (8, 16, 32)
) -> tuple[NcclSetting, ...]:
    """Return what is worth a measurement.

    Args:
        rdma: whether nodes talk over RDMA, so that queue pairs and GPUDirect mean something.
    """
    return (*(_of_fleet() if rdma else ()), *_buffers(), *_of_sizes(nvls, channels))


def _of_fleet() -> Iterator[NcclSetting]:
    """Yield settings of the way between nodes. NCCL's defaults: 1 queue pair, PXN, GDR at PXB."""
    for pairs in ("2", "4", "8"):
        yield fleet_setting(f"{pairs} queue pairs", NCCL_IB_QPS_PER_CONNECTION=pairs)
        yield fleet_setting(
            f"{pairs} queue pairs that share each message",
            NCCL_IB_QPS_PER_CONNECTION=pairs,
            NCCL_IB_SPLIT_DATA_ON_QPS="1",
        )
    yield fleet_setting("no PXN", NCCL_PXN_DISABLE="1")
    yield fleet_setting("GPUDirect across the root complex", NCCL_NET_GDR_LEVEL="PHB")


def _buffers() -> Iterator[NcclSetting]:
    """Yield sizes of buffers; NCCL's default is 4 MiB."""
    for mib in (2, 8, 16):
        yield fleet_setting(f"buffers of {mib} MiB", NCCL_BUFFSIZE=str(mib << 20))


def _of_sizes(nvls: bool, channels: tuple[int, ...]) -> Iterator[NcclSetting]:
    for algorithm, protocol, count in itertools.product(("Ring", "Tree"), PROTOCOLS, channels):
        yield size_setting(algorithm, protocol, count)
    if nvls:  # it has one protocol
        for count in channels:
            yield size_setting("NVLSTree", "Simple", count)
