"""The memory of a node."""

import re

from rdmaprov.facts.errors import CouldNotTell
from rdmaprov.facts.host import Host
from rdmaprov.facts.text import read_files

_PATH = "/proc/meminfo"
# What a kernel keeps for itself before MemTotal: 1/64 for its page descriptors, more on machines
# with crash kernels and firmware's tables. As the role fabric allows.
_SHARE, _BYTES = 0.04, 256 << 20


def total_bytes(host: Host) -> int:
    """Return the memory that the kernel has, in bytes."""
    found = re.search(r"(?m)^MemTotal:\s+(\d+) kB$", read_files(host, _PATH).must(_PATH))
    if found is None:
        raise CouldNotTell(f"{_PATH} shows no MemTotal")
    return int(found[1]) << 10


def minimum_bytes(installed_bytes: int) -> int:
    """Return the least that a kernel has of this much memory."""
    return int(installed_bytes * (1 - _SHARE)) - _BYTES
