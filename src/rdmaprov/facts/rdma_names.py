"""Names of RDMA devices: which stay with their card, and which only count cards.

The kernel gives a new device the first number that is free (drivers/infiniband/core/device.c,
alloc_name): without one card, those after it get other names. rdma-core's udev rule renames by
place (kernel-boot/rdma_rename.c), other rules by NAME_FIXED. A rule cannot give a device a name
that another one has (ib_device_rename: EEXIST), so a fixed name like the kernel's may fail.
"""

import re
from dataclasses import dataclass

from rdmaprov.facts.host import Host
from rdmaprov.facts.text import Files, read_files

# Drivers' own patterns: "mlx5_%d", "mlx5_bond_%d", "bnxt_re%d", "irdma%d", "ionic_%d".
_COUNTED = re.compile(r"(mlx[45]_(?:bond_)?|bnxt_re(?:_bond)?|irdma|ionic_)\d+")
_PLACE = r"(P\d+)?(p\d+s\d+|s\d+)(f\d+(v\d+)?)?"
_BY_PLACE = re.compile(rf"(ib|roce|iw|opa|usnic|rdma)(o\d+|x[0-9a-f]{{16}}|{_PLACE})")
_FIXED = re.compile(r'rdma_rename\s+\S+\s+NAME_FIXED\s+([^\s"]+)')
_RENAMED = re.compile(r"rdma_rename\s+\S+\s+NAME_(FALLBACK|PCI|GUID|ONBOARD)\b")
# The first directory wins where a file of the same name is in several: udev(7).
_DIRECTORIES = ("/etc/udev/rules.d", "/run/udev/rules.d", "/usr/lib/udev/rules.d")
RULES = tuple(
    f"{directory}/{'*rdma*' if directory.startswith('/usr') else '*'}.rules"
    for directory in _DIRECTORIES
)


def counter(name: str) -> str:
    """Return what the kernel puts before its number, such as mlx5_; empty for any other name."""
    found = _COUNTED.fullmatch(name)
    return found[1] if found else ""


def is_by_place(name: str) -> bool:
    """Return whether it is a name that rdma-core's rule gives, such as rocep24s0."""
    return _BY_PLACE.fullmatch(name) is not None


@dataclass(frozen=True)
class Renaming:
    """What udev's rules do with the names of RDMA devices at each boot."""

    fixed: frozenset[str]
    by_place: bool

    def keeps(self, name: str) -> bool:
        """Return whether a boot gives this name: the kernel's, or one of a rule's."""
        if name in self.fixed or counter(name):
            return True
        return self.by_place and is_by_place(name)


def read(host: Host) -> Renaming:
    """Return what the node's rules do."""
    return parse(read_files(host, *RULES))


def parse(files: Files) -> Renaming:
    """Return what these files' rules do."""
    by_name: dict[str, str] = {}
    for directory in _DIRECTORIES:
        for found, text in files.matching(re.escape(directory) + r"/([^/]+)"):
            by_name.setdefault(found[1], text)
    lines = [line for text in by_name.values() for line in text.replace("\\\n", " ").splitlines()]
    rules = "\n".join(line for line in lines if not line.lstrip().startswith("#"))
    return Renaming(frozenset(_FIXED.findall(rules)), _RENAMED.search(rules) is not None)
