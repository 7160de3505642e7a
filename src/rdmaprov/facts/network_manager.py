"""What NetworkManager's profiles give a device at boot: keyfiles, and the Red Hat family's ifcfg.

Sources: nm-settings-keyfile(5), nm-settings-ifcfg-rh(5), NetworkManager.conf(5).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rdmaprov.facts import ifcfg
from rdmaprov.facts.errors import CouldNotTell
from rdmaprov.facts.text import Files

PATHS = (
    "/etc/NetworkManager/system-connections/*.nmconnection",
    "/etc/NetworkManager/conf.d/*.conf",
    f"{ifcfg.RED_HAT}/ifcfg-*",
)
Section = tuple[str, dict[str, list[str]]]
# A profile's own MTU; these leave it to the default of conf.d (nm-settings-nmcli(5), ethernet.mtu).
_OPEN = ("", "0", "auto")
_CONNECTED = {"yes": "connected", "no": "datagram"}


@dataclass(frozen=True)
class ConnectionProfile:
    """What a profile gives a device.

    Args:
        priority: the highest one of a device is activated.
        addresses: with prefix length.
        mtu: as written; empty if it leaves it open.
        rules: source and table of each routing rule.
        ipoib_mode: datagram or connected; empty if it leaves it open.

    """

    file: str
    priority: int
    addresses: tuple[str, ...]
    mtu: str
    rules: tuple[tuple[str, str], ...]
    ipoib_mode: str = ""


def profile(files: Files, netdev: str, mac: str) -> ConnectionProfile | None:
    """Return the profile that a boot activates on a device, None if none is for it.

    Raises:
        CouldNotTell: several have the same priority and do not give the same: which one is
            activated, only NetworkManager's own record of their last use decides.

    """
    found = [*_keyfiles(files, netdev), *_ifcfgs(files, netdev, mac)]
    if not found:
        return None
    highest = max(each.priority for each in found)
    best = [each for each in found if each.priority == highest]
    if len({(each.addresses, each.mtu, each.rules, each.ipoib_mode) for each in best}) > 1:
        names = ", ".join(each.file for each in best)
        raise CouldNotTell(f"{netdev}: profiles of one priority differ ({names})", "nmcli device")
    return best[0]


def default_mtu(files: Files, netdev: str) -> tuple[str, tuple[str, ...]]:
    """Return the MTU of profiles that leave it open, empty for none, and the files that say so."""
    for match, text in files.matching(r"/etc/NetworkManager/conf\.d/.+"):
        for _, keys in sections(text):
            if last(keys, "match-device").removeprefix("interface-name:").lstrip("=") != netdev:
                continue
            for key in ("ethernet.mtu", "infiniband.mtu"):
                if last(keys, key) not in _OPEN:
                    return last(keys, key), (match[0],)
    return "", ()


def sections(text: str) -> Iterator[Section]:
    """Yield each section with the values of its keys, in their order."""
    title, keys = "", dict[str, list[str]]()
    for line in text.splitlines():
        head = re.fullmatch(r"\s*\[(.+)\]\s*", line)
        name, equals, value = line.partition("=")
        if head:
            yield title, keys
            title, keys = head[1], {}
        elif equals and not line.lstrip().startswith(("#", ";")):
            keys.setdefault(name.strip(), []).append(value.strip())
    yield title, keys


def rule(text: str) -> tuple[str, str]:
    """Return source and table of a routing rule in ip's words."""
    found: dict[str, str] = dict(re.findall(r"(from|table|lookup) (\S+)", text))
    return found.get("from", ""), found.get("table") or found.get("lookup", "")


def _keyfiles(files: Files, netdev: str) -> Iterator[ConnectionProfile]:
    for match, text in files.matching(r"/etc/NetworkManager/system-connections/.+"):
        of = dict(sections(text))
        connection = of.get("connection", {})
        if last(connection, "interface-name") != netdev:
            continue
        if last(connection, "autoconnect") == "false":
            continue
        ips = [of.get(family, {}) for family in ("ipv4", "ipv6")]
        links = [of.get(kind, {}) for kind in ("ethernet", "802-3-ethernet", "infiniband")]
        mtu = next((last(each, "mtu") for each in links if last(each, "mtu")), "")
        yield ConnectionProfile(
            match[0],
            _number(last(connection, "autoconnect-priority")),
            tuple(value.partition(",")[0] for value in _values(ips, r"address(es)?\d*")),
            "" if mtu in _OPEN else mtu,
            tuple(rule(value) for value in _values(ips, r"routing-rule\d+")),
            last(of.get("infiniband", {}), "transport-mode"),
        )


def _ifcfgs(files: Files, netdev: str, mac: str) -> Iterator[ConnectionProfile]:
    for match, text in files.matching(re.escape(ifcfg.RED_HAT) + r"/ifcfg-[^/]+"):
        of = ifcfg.variables(text)
        hardware = of.get("HWADDR", "").lower()
        if of.get("DEVICE", "") != netdev and not (mac and hardware == mac):
            continue
        if not ifcfg.starts_at_boot(of):
            continue
        mtu = of.get("MTU", "")
        yield ConnectionProfile(
            match[0],
            _number(of.get("AUTOCONNECT_PRIORITY", "")),
            ifcfg.addresses(of),
            "" if mtu in _OPEN else mtu,
            tuple(rule(of[name]) for name in sorted(of) if name.startswith("ROUTING_RULE")),
            _CONNECTED.get(of.get("CONNECTED_MODE", "").lower(), ""),
        )


def _values(of: Iterable[dict[str, list[str]]], pattern: str) -> Iterator[str]:
    for keys in of:
        for key, values in keys.items():
            if re.fullmatch(pattern, key):
                yield from (value for value in values if value)


def last(keys: dict[str, list[str]], key: str) -> str:
    """Return the value of a section's key that counts, empty for none."""
    return keys.get(key, [""])[-1]


def _number(text: str) -> int:
    return int(text) if re.fullmatch(r"-?\d+", text) else 0
