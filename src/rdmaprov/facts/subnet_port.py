"""What the subnet manager gave an InfiniBand port: LIDs, prefix, partition keys.

Linux drivers/infiniband/core/sysfs.c: `lid` and `sm_lid` as 0x%x, each of `pkeys` as 0x%04x (0x0000
where the table has none), GIDs as eight groups of four digits.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from rdmaprov.facts.devices import INFINIBAND
from rdmaprov.facts.errors import CouldNotTell
from rdmaprov.facts.host import Host
from rdmaprov.facts.text import Files, read_files

_PORT = f"{INFINIBAND}/*/ports/1"
PATHS = tuple(f"{_PORT}/{name}" for name in ("lid", "sm_lid", "gids/0", "pkeys/*"))
# InfiniBand Architecture 1.7, volume 1, 4.1.1: LIDs of single ports.
UNICAST = range(0x0001, 0xC000)
_GID = re.compile(r"[0-9a-f]{4}(:[0-9a-f]{4}){7}")


@dataclass(frozen=True)
class SubnetPort:
    """A port's place in its subnet."""

    lid: int  # its address; 0 if no subnet manager gave it one
    sm_lid: int  # the subnet manager's; 0 if none is known
    prefix: int  # of the subnet, the upper half of GID 0
    guid: int  # the port's, the lower half of GID 0
    pkeys: Mapping[int, int]  # the partition keys by their index; without those that are 0


def read(host: Host, rdma: str) -> SubnetPort:
    """Return what port 1 of a device has."""
    return parse(read_files(host, *PATHS, quiet=True), rdma)


def parse(files: Files, rdma: str) -> SubnetPort:
    """Return what these files say of a device; raises as `read` does."""
    port = f"{INFINIBAND}/{rdma}/ports/1"
    gid = files.must(f"{port}/gids/0")
    if not _GID.fullmatch(gid):
        raise CouldNotTell(f"{port}/gids/0 shows {gid[:60]!r}, not a GID")
    pkeys = {}
    for found, text in files.matching(re.escape(port) + r"/pkeys/(\d+)"):
        if key := _number(text, found[0]):
            pkeys[int(found[1])] = key
    return SubnetPort(
        _number(files.must(f"{port}/lid"), f"{port}/lid"),
        _number(files.must(f"{port}/sm_lid"), f"{port}/sm_lid"),
        int(gid.replace(":", "")[:16], 16),
        int(gid.replace(":", "")[16:], 16),
        dict(sorted(pkeys.items())),
    )


def _number(text: str, path: str) -> int:
    if not re.fullmatch(r"0x[0-9a-f]{1,4}", text):
        raise CouldNotTell(f"{path} shows {text[:60]!r}, not a number of 16 bits")
    return int(text, 16)
