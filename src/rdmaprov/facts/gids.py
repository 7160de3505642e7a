"""The GID table of an RDMA device."""

import ipaddress
from dataclasses import dataclass

from rdmaprov.facts.devices import INFINIBAND
from rdmaprov.facts.errors import CouldNotTell
from rdmaprov.facts.host import Host
from rdmaprov.facts.text import read_files

ROCE_V2 = "RoCE v2"
PATHS = tuple(
    f"{INFINIBAND}/*/ports/1/{name}/*" for name in ("gids", "gid_attrs/types", "gid_attrs/ndevs")
)
_PATH = INFINIBAND + r"/([^/]+)/ports/1/gids/(\d+)"


@dataclass(frozen=True)
class Gid:
    """An entry that is set."""

    index: int  # its place in the table; it moves when addresses come and go
    type: str  # "RoCE v2", "IB/RoCE v1"; empty on InfiniBand
    netdev: str  # its network device, empty on InfiniBand
    address: ipaddress.IPv6Address  # the GID as an IPv6 address; an IPv4 address is mapped

    def is_of(self, address: str) -> bool:
        """Return whether it is the GID of an IP address."""
        wanted = ipaddress.ip_address(address)
        if isinstance(wanted, ipaddress.IPv4Address):
            return self.address.ipv4_mapped == wanted
        return self.address == wanted


def read(host: Host) -> dict[str, tuple[Gid, ...]]:
    """Return the entries that are set, by RDMA device, port 1.

    Raises:
        CouldNotTell: a GID is none.
    """
    # Unset entries have no type (EINVAL), so they are not asked why.
    files = read_files(host, *PATHS, quiet=True)
    found: dict[str, list[Gid]] = {}
    for match, text in files.matching(_PATH):
        device, index = match[1], match[2]
        try:
            address = ipaddress.IPv6Address(text)
        except ValueError as error:
            raise CouldNotTell(f"{match[0]} shows {text[:60]!r}, not a GID") from error
        if int(address) == 0:
            continue
        attrs = f"{INFINIBAND}/{device}/ports/1/gid_attrs"
        kind = files.texts.get(f"{attrs}/types/{index}", "").strip()
        netdev = files.texts.get(f"{attrs}/ndevs/{index}", "").strip()
        found.setdefault(device, []).append(Gid(int(index), kind, netdev, address))
    return {device: tuple(sorted(each, key=_index)) for device, each in found.items()}


def _index(gid: Gid) -> int:
    return gid.index


def nccl_gid(gids: tuple[Gid, ...], address: str) -> Gid | None:
    """Return the GID that NCCL takes for an address: the RoCE v2 one, None if there is none."""
    return next((gid for gid in gids if gid.type == ROCE_V2 and gid.is_of(address)), None)
