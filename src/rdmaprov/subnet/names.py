"""Names of nodes and devices, from node descriptions."""

import re
from dataclasses import dataclass
from functools import lru_cache

# A description is "HOST DEVICE" where the kernel or rdma-ndd wrote it (rdma-core, rdma-ndd(8)).
_DEVICE = re.compile(
    r"(HCA-\d+|(?:mlx[45]|mthca|hfi1|qib|ipath|irdma|ib|ibp\w+|rocep\w+|mlx5_\w+)_?\w*)$"
)
_NUMBER = re.compile(r"(\d+)")
_MOST_DIGITS = 9
# A switch's own adapter for in-network reductions (SHARP): no host stands behind it.
AGGREGATION = "Aggregation Node"


@dataclass(frozen=True)
class Place:
    """The host and the device of an HCA; without a device, the host is the whole description."""

    host: str
    device: str


@lru_cache(maxsize=65536)
def place(description: str) -> Place:
    """Return the host and device of a node description.

    >>> place("node001 mlx5_0")
    Place(host='node001', device='mlx5_0')
    >>> place("MT25408 ConnectX Mellanox Technologies").device
    ''
    """
    host, _, device = description.strip().strip("'").rpartition(" ")
    host = host.strip().strip("'")
    if host and _DEVICE.match(device):
        return Place(host, device)
    return Place(description.strip(), "")


@lru_cache(maxsize=65536)
def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """Return a key that sorts numbers in names by value."""
    return tuple(
        (0, int(part), "") if part.isdecimal() else (1, 0, part)
        for part in _NUMBER.split(name)
        if part
    )


@dataclass(frozen=True)
class Series:
    """Names that differ in their last number alone; `width` is more than 1 with leading zeros."""

    before: str
    after: str

    def name(self, number: int, width: int) -> str:
        """Return the name with a number."""
        return f"{self.before}{number:0{width}d}{self.after}"


@lru_cache(maxsize=65536)
def series(name: str) -> tuple[Series, int, int] | None:
    """Return the series of a name, its last number, and the width of that if it has leading zeros.

    >>> series("rack2-node007")
    (Series(before='rack2-node', after=''), 7, 3)
    >>> series("login") is None
    True
    """
    found = list(_NUMBER.finditer(name))
    if not found or len(found[-1][0]) > _MOST_DIGITS:
        return None
    last = found[-1]
    width = len(last[0]) if last[0].startswith("0") else 1
    return Series(name[: last.start()], name[last.end() :]), int(last[0]), width


def stem(name: str) -> str:
    """Return a name with all its numbers left open: what nodes of one kind share."""
    return _NUMBER.sub("#", name)
