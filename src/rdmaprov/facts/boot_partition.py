"""Which partition the next boot gives an IPoIB interface, by the files of the node's link manager.

Sources: systemd.netdev(5) and systemd.network(5), NetworkManager's NMSettingInfiniband, Red Hat's
"Configuring IPoIB" (PKEY, PKEY_ID, PHYSDEV), Linux Documentation/infiniband/ipoib.rst.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from rdmaprov.facts import ifcfg, link_files
from rdmaprov.facts.devices import NET
from rdmaprov.facts.host import Host
from rdmaprov.facts.link_files import NETWORKD
from rdmaprov.facts.network_manager import last, sections
from rdmaprov.facts.text import Files, read_files
from rdmaprov.inventory.partitions import FULL

PATHS = (*link_files.PATHS, *(f"{each}/*.netdev" for each in NETWORKD))
_NUMBER = re.compile(r"0x[0-9a-fA-F]{1,4}|[0-9]{1,5}")


@dataclass(frozen=True)
class BootPartition:
    """What makes an IPoIB interface at boot."""

    key: int | None  # the partition's; None if nothing makes it
    where: str  # the files that say so, or what is missing


def read(host: Host, netdev: str, parent: str) -> BootPartition:
    """Return which partition the next boot gives an interface over a port's own device."""
    return parse(read_files(host, *PATHS), netdev, parent)


def parse(files: Files, netdev: str, parent: str) -> BootPartition:
    """Return what these files say; the first manager that makes it counts."""
    missing = ""
    for found in _made(files, netdev, parent):
        if found.key is not None:
            return found
        missing = missing or found.where
    return BootPartition(None, missing or "link managers' files, none creates it")


def _made(files: Files, netdev: str, parent: str) -> Iterator[BootPartition]:
    yield from _networkd(files, netdev, parent)
    for match, text in files.matching(r"/etc/NetworkManager/system-connections/.+"):
        of = dict(sections(text))
        connection, link = of.get("connection", {}), of.get("infiniband", {})
        is_on = last(connection, "autoconnect") != "false"
        names = last(connection, "interface-name"), last(link, "parent")
        if names == (netdev, parent) and is_on:
            yield BootPartition(_key(last(link, "p-key")), match[0])
    for match, text in files.matching(re.escape(ifcfg.RED_HAT) + r"/ifcfg-[^/]+"):
        words = ifcfg.variables(text)
        named = words.get("DEVICE"), words.get("PHYSDEV")
        if named == (netdev, parent) and ifcfg.starts_at_boot(words):
            yield BootPartition(_key(words.get("PKEY_ID", "")), match[0])
    child = re.escape(f"{NET}/{parent}/create_child")
    for path, lines in link_files.stanzas(files, netdev):
        for line in lines:
            if written := re.search(rf"echo (\w+) > {child}$", line):
                yield BootPartition(_key(written[1]), path)


def _networkd(files: Files, netdev: str, parent: str) -> Iterator[BootPartition]:
    """Yield what networkd makes: a device's file, which the port's own has to name."""
    for _, path in link_files.networkd_files(files, r"[^/]+\.netdev"):
        of = dict(sections(files.must(path)))
        if last(of.get("NetDev", {}), "Name") != netdev:
            continue
        read, used = link_files.systemd_sections(files, parent, "network")
        if any(netdev in keys.get("IPoIB", []) for title, keys in read if title == "Network"):
            yield BootPartition(_key(last(of.get("IPoIB", {}), "PartitionKey")), path)
        else:
            place = ", ".join(used) or f"no .network file of {parent}"
            yield BootPartition(None, f"{path}; {place} has no IPoIB={netdev}")


def _key(text: str) -> int | None:
    """Return a key with full membership, which the interface has whatever the file says.

    RFC 4391, section 4; Linux drivers/infiniband/ulp/ipoib/ipoib_vlan.c sets the bit.
    """
    return int(text, 0) | FULL if _NUMBER.fullmatch(text) else None
