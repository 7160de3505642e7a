"""What a boot gives a network device, by the files of the node's link manager.

Sources: systemd.network(5), netplan's YAML reference, interfaces(5), SUSE's ifcfg(5).
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rdmaprov.facts import ifcfg, netplan, network_manager
from rdmaprov.facts.devices import NET
from rdmaprov.facts.errors import CouldNotTell
from rdmaprov.facts.host import Host
from rdmaprov.facts.network_manager import Section, rule, sections
from rdmaprov.facts.text import Files, read_files

NETWORKD = ("/etc/systemd/network", "/run/systemd/network", "/usr/lib/systemd/network")
PATHS = (
    *(f"{each}/*.network" for each in NETWORKD),
    *(f"{each}/*.network.d/*.conf" for each in NETWORKD),
    *network_manager.PATHS,
    "/etc/netplan/*.yaml",
    "/etc/network/interfaces",
    "/etc/network/interfaces.d/*",
    f"{ifcfg.SUSE}/ifcfg-*",
)
_MACS = ("MACAddress", "PermanentMACAddress")
_UNMATCHED = ("Path", "Driver", "Type", "Property")
_ADDRESS = "/sys/class/net/{}/address"


@dataclass(frozen=True)
class Boot:
    """What a boot gives a device.

    Args:
        addresses: with prefix length.
        mtu_bytes: None if no file sets it.
        rules: source and table of each routing rule; the table is a text.
        files: those that say so, or the places where nothing was found.
        ipoib_mode: datagram or connected; empty if no file sets IPoIB's mode.

    """

    addresses: tuple[str, ...] = ()
    mtu_bytes: int | None = None
    rules: tuple[tuple[str, str], ...] = ()
    files: tuple[str, ...] = ()
    ipoib_mode: str = ""

    @property
    def where(self) -> str:
        """Return the files in words."""
        return ", ".join(self.files) or "link managers' files, none of which names it"


def read(host: Host) -> Files:
    """Return all files of link managers, by one command."""
    return read_files(host, *PATHS, _ADDRESS.format("*"))


def boot_settings(files: Files, netdev: str) -> Boot:
    """Return what the files give a device: the first manager that has something for it.

    Raises:
        CouldNotTell: none has, and a file cannot be read; or one is in no known form.

    """
    for manager in (_netplan, _networkd, _network_manager, _ifupdown, _wicked):
        found = manager(files, netdev)
        if found.addresses or found.mtu_bytes is not None or found.ipoib_mode:
            return found
    _require_readable(files, "/")
    return Boot()


def _require_readable(files: Files, start: str) -> None:
    """Raise CouldNotTell for a file that is there and cannot be read: it may be the one."""
    for path in files.reasons:
        if path.startswith(start):
            files.get(path)


def _networkd(files: Files, netdev: str) -> Boot:
    read, used = networkd_sections(files, netdev)
    return _of_sections(read, used) if used else Boot()


def networkd_sections(files: Files, netdev: str) -> tuple[list[Section], tuple[str, ...]]:
    """Return what networkd takes for a device, and from which files.

    The first file by name that matches, with its drop-ins; nothing if none does.
    """
    mac = _mac(files, netdev)
    for name, path in networkd_files(files, r"[^/]+\.network"):
        read = list(sections(files.must(path)))
        if not _matches([keys for title, keys in read if title == "Match"], netdev, mac):
            continue
        used = [path]
        for _, drop_in in networkd_files(files, re.escape(name) + r"\.d/[^/]+\.conf"):
            read += sections(files.must(drop_in))
            used.append(drop_in)
        return read, tuple(used)
    return [], ()


def _of_sections(read: list[Section], used: tuple[str, ...]) -> Boot:
    addresses = [
        value
        for title, keys in read
        if title in ("Network", "Address")
        for value in keys.get("Address", [])
    ]
    mtus = [mtu for title, keys in read if title == "Link" for mtu in keys.get("MTUBytes", [])]
    rules = [
        (source, table)
        for title, keys in read
        if title == "RoutingPolicyRule"
        for source, table in zip(keys.get("From", []), keys.get("Table", []), strict=False)
    ]
    modes = [mode for title, keys in read if title == "IPoIB" for mode in keys.get("Mode", [])]
    mode = "".join(modes[-1:])
    return Boot(tuple(addresses), _mtu(mtus[-1:], used), tuple(rules), used, mode)


def _mac(files: Files, netdev: str) -> str:
    return (files.get(_ADDRESS.format(netdev)) or "").strip().lower()


def networkd_files(files: Files, pattern: str) -> Iterator[tuple[str, str]]:
    """Yield name below its directory and path, by name; an earlier directory hides a later one."""
    chosen: dict[str, str] = {}
    for directory in NETWORKD:
        for match, _ in files.matching(re.escape(directory) + f"/({pattern})"):
            chosen.setdefault(match[1], match[0])
    yield from sorted(chosen.items())


def _matches(matches: list[dict[str, list[str]]], netdev: str, mac: str) -> bool:
    """Return whether [Match] is for a device by its name and MAC; by the rest it is not known."""
    names = [word for keys in matches for value in keys.get("Name", []) for word in value.split()]
    if any(key in keys for keys in matches for key in _UNMATCHED):
        return False  # an admin's, of devices by their hardware: the rail's own comes by name
    macs = [
        v for keys in matches for key in _MACS for value in keys.get(key, []) for v in value.split()
    ]
    if macs and not (mac and mac in [re.sub(r"[-.]", ":", each).lower() for each in macs]):
        return False
    if not names:
        return bool(macs)
    if names[0].startswith("!"):
        return not any(fnmatch.fnmatchcase(netdev, name.lstrip("!")) for name in names)
    return any(fnmatch.fnmatchcase(netdev, name) for name in names)


def _network_manager(files: Files, netdev: str) -> Boot:
    found = network_manager.profile(files, netdev, _mac(files, netdev))
    default, places = network_manager.default_mtu(files, netdev)
    if found is None:
        if default:
            _require_readable(files, "/etc/NetworkManager/")
        return Boot(mtu_bytes=_mtu([default] if default else [], places), files=places)
    used = (found.file, *(() if found.mtu else places))
    mtu = _mtu([found.mtu or default] if found.mtu or default else [], used)
    return Boot(found.addresses, mtu, found.rules, used, found.ipoib_mode)


def _wicked(files: Files, netdev: str) -> Boot:
    """Return what wicked takes; its rules, in files ifrule-NAME, are not read."""
    path = f"{ifcfg.SUSE}/ifcfg-{netdev}"
    text = files.get(path)
    if text is None:
        return Boot()
    of = ifcfg.variables(text)
    mtu = [of["MTU"]] if of.get("MTU") else []
    mode = of.get("IPOIB_MODE", "")
    return Boot(ifcfg.addresses(of), _mtu(mtu, (path,)), files=(path,), ipoib_mode=mode)


def _netplan(files: Files, netdev: str) -> Boot:
    addresses: list[str] = []
    rules: list[tuple[str, str]] = []
    mtu: list[str] = []
    mode = ""
    used = []
    texts = [(match[0], text) for match, text in files.matching(r"/etc/netplan/.+\.yaml")]
    for path, entry in netplan.entries(texts, netdev):
        used.append(path)
        addresses += [str(each) for each in entry.get("addresses", []) or []]
        mode = str(entry.get("infiniband-mode") or mode)
        mtu += [str(entry["mtu"])] if "mtu" in entry else []
        rules += [
            (str(each.get("from", "")), str(each.get("table", "")))
            for each in entry.get("routing-policy", []) or []
        ]
    return Boot(tuple(addresses), _mtu(mtu[-1:], tuple(used)), tuple(rules), tuple(used), mode)


def _ifupdown(files: Files, netdev: str) -> Boot:
    addresses: list[str] = []
    rules: list[tuple[str, str]] = []
    mtu: list[str] = []
    mode = ""
    used = []
    for path, lines in stanzas(files, netdev):
        used.append(path)
        for line in lines:
            words = line.split()
            addresses += words[1:2] if words[:1] == ["address"] else []
            mtu += words[1:2] if words[:1] == ["mtu"] else []
            written = re.search(rf"echo (\w+) > {NET}/{re.escape(netdev)}/mode$", line)
            mode = written[1] if written else mode
            set_by_ip = re.search(rf"link set dev {re.escape(netdev)} mtu (\d+)", line)
            mtu += [set_by_ip[1]] if set_by_ip else []
            rules += [rule(line)] if "rule add" in line else []
    return Boot(tuple(addresses), _mtu(mtu[-1:], tuple(used)), tuple(rules), tuple(used), mode)


def stanzas(files: Files, netdev: str) -> Iterator[tuple[str, list[str]]]:
    """Yield file and lines of each of ifupdown's stanzas for a device."""
    for match, text in files.matching(r"/etc/network/interfaces(?:\.d/[A-Za-z0-9_-]+)?"):
        for lines in _stanzas(text, netdev):
            yield match[0], lines


def _stanzas(text: str, netdev: str) -> Iterator[list[str]]:
    lines: list[str] | None = None
    for line in text.splitlines():
        words = line.split()
        if words[:1] and words[0] in ("iface", "auto", "mapping", "source", "allow-hotplug"):
            if lines is not None:
                yield lines
            lines = [] if words[:2] == ["iface", netdev] else None
        elif lines is not None and words and not words[0].startswith("#"):
            lines.append(line.strip())
    if lines is not None:
        yield lines


def _mtu(values: Iterable[str], used: tuple[str, ...]) -> int | None:
    for value in values:
        if not value.isdigit():
            raise CouldNotTell(f"{', '.join(used)}: MTU {value!r} is not a number")
        return int(value)
    return None
