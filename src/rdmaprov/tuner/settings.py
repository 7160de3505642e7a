"""Settings of NCCL that are worth a measurement, each against its defaults.

None has NCCL_ALGO, NCCL_PROTO or a number of channels: for a whole fleet, they take NCCL's choice
by size away from it; ClusterMAX asks that they are not set.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class NcclSetting:
    """One setting of the whole fleet: variables that all collectives of all sizes get."""

    name: str
    environment: Mapping[str, str] = field(default_factory=dict, hash=False)


DEFAULTS = NcclSetting("NCCL's defaults")


def usual_settings() -> Iterator[NcclSetting]:
    """Yield what is worth a measurement.

    NCCL's defaults: 1 queue pair, PXN, GDR at PXB, buffers of 4 MiB.
    """
    for pairs in ("2", "4", "8"):
        own = {"NCCL_IB_QPS_PER_CONNECTION": pairs}
        yield NcclSetting(f"{pairs} queue pairs", own)
        split = {**own, "NCCL_IB_SPLIT_DATA_ON_QPS": "1"}
        yield NcclSetting(f"{pairs} queue pairs that share each message", split)
    yield NcclSetting("no PXN", {"NCCL_PXN_DISABLE": "1"})
    yield NcclSetting("GPUDirect across the root complex", {"NCCL_NET_GDR_LEVEL": "PHB"})
    for mib in (2, 8, 16):
        yield NcclSetting(f"buffers of {mib} MiB", {"NCCL_BUFFSIZE": str(mib << 20)})
