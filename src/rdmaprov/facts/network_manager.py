"""What NetworkManager's profiles give a device at boot: keyfiles, and the Red Hat family's ifcfg.

Sources: nm-settings-keyfile(5), nm-settings-nmcli(5), nm-settings-ifcfg-rh(5),
NetworkManager.conf(5).
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rdmaprov.facts import boot_device, ifcfg
from rdmaprov.facts.boot_device import BootDevice
from rdmaprov.facts.devices import NET
from rdmaprov.facts.errors import CouldNotTell
from rdmaprov.facts.text import Files

_ROOTS = ("/usr/lib/NetworkManager", "/run/NetworkManager", "/etc/NetworkManager")
# One in /run hides profiles of its UUID in /etc, and that one those in /usr/lib.
_PROFILES = tuple(f"{_ROOTS[each]}/system-connections" for each in (1, 2, 0))
_MAIN, _USED = f"{_ROOTS[2]}/NetworkManager.conf", "/var/lib/NetworkManager/timestamps"
PATHS = (
    *(f"{each}/{name}" for each in _ROOTS for name in ("system-connections/*", "conf.d/*.conf")),
    *(_MAIN, _USED, f"{ifcfg.RED_HAT}/ifcfg-*"),
)
Section = tuple[str, dict[str, list[str]]]
Keyfile = dict[str, dict[str, list[str]]]
# A profile's own MTU; these leave it to the default of conf.d (nm-settings-nmcli(5), ethernet.mtu).
_OPEN = ("", "0", "auto")
_CONNECTED = {"yes": "connected", "no": "datagram"}
_PORT_KINDS = {"ethernet": "ether", "802-3-ethernet": "ether", "infiniband": "infiniband"}
_YES = ("true", "yes", "1")
_MULTIPLE = "3"  # connection.multi-connect; with others one device at a time can have a profile
# Files that it leaves alone [NetworkManager src/core/settings/plugins].
_LEFT_OUT = re.compile(r"(?i).*(/\.[^/]*|~|\.(pem|der|bak|orig|rej|rpmnew|augnew|augtmp))")


@dataclass(frozen=True)
class ConnectionProfile:
    """What a profile gives a device."""

    file: str
    # its priority, and when it was used last; the highest of a device is activated
    rank: tuple[int, int]
    is_for: bool | None  # whether it is for the device; None if that is not known
    addresses: tuple[str, ...]
    mtu: str  # as written; empty if it leaves it open
    rules: tuple[tuple[str, str], ...]
    ipoib_mode: str
    is_single: bool = False  # whether it names no device, and only one at a time can have it


def profile(files: Files, netdev: str) -> ConnectionProfile | None:
    """Return the profile that a boot activates on a device, None if none is for it."""
    best = _best(files, netdev)
    if best and best.is_single:
        for match, _ in files.matching(f"{NET}/([^/]+)/address"):
            found = _best(files, match[1]) if match[1] != netdev else None
            if found and found.file == best.file:
                why = f"for {match[1]} too, and without multi-connect=3 for one of them at a time"
                raise CouldNotTell(f"{netdev}: {best.file} is {why}", "nmcli device")
    return best


def _best(files: Files, netdev: str) -> ConnectionProfile | None:
    device = boot_device.read(files, netdev)
    found = [*_keyfiles(files, device), *_ifcfgs(files, device)]
    found = [each for each in found if each.is_for is not False]
    least = max((each.rank for each in found if each.is_for), default=(-1000, 0))
    best = [each for each in found if each.rank >= least]
    gives = {(each.addresses, each.mtu, each.rules, each.ipoib_mode) for each in best}
    if len(gives) > 1 or not all(each.is_for for each in best):
        why = f"profiles of one priority differ ({', '.join(each.file for each in best)})"
        raise CouldNotTell(f"{netdev}: {why}, or ask what is not known", "nmcli device")
    return best[0] if best else None


def is_managed(files: Files, netdev: str) -> bool:
    """Return whether NetworkManager's configuration leaves a device to it."""
    lists: list[str] = []
    for title, keys, _ in _configuration(files):
        if title == "keyfile":
            lists = keys.get("unmanaged-devices", lists) + keys.get("unmanaged-devices+", [])
    return not _is_listed(files, netdev, ";".join(lists), "unmanaged-devices")


def _is_listed(files: Files, netdev: str, text: str, where: str) -> bool:
    found = boot_device.is_listed(text, boot_device.read(files, netdev))
    if found is None:
        raise CouldNotTell(f"{netdev}: not known if {where} has it ({text})", "nmcli device")
    return found


def default_mtu(files: Files, netdev: str) -> tuple[str, tuple[str, ...]]:
    """Return the MTU of profiles that leave it open, empty for none, and the files that say so."""
    is_ipoib = "infiniband" in boot_device.read(files, netdev).types
    key = "infiniband.mtu" if is_ipoib else "ethernet.mtu"
    found = [each for each in _configuration(files) if each[0].startswith("connection")]
    found = [each for each in found if {key, "stop-match"} & set(each[1])]
    paths = [path for *_, path in found]
    # The file that is read last comes first, and [connection] of all files last.
    for _, keys, path in sorted(found, key=lambda s: (s[0] == "connection", -paths.index(s[2]))):
        if _is_listed(files, netdev, keys.get("match-device", ["*"])[-1], path):
            if key in keys and last(keys, key) not in _OPEN:
                return last(keys, key), (path,)
            if key in keys or last(keys, "stop-match") in _YES:
                break
    return "", ()


def _configuration(files: Files) -> list[tuple[str, dict[str, list[str]], str]]:
    """Return title, keys and file of all sections, in the order in which they are read."""
    chosen: dict[str, tuple[float, str]] = {}
    for order, root in enumerate(_ROOTS):
        for match, _ in files.matching(re.escape(root) + r"/conf\.d/([^/]+\.conf)"):
            chosen[match[1]] = (order, match[0])
    if _MAIN in files.texts:
        chosen[_MAIN] = (1.5, _MAIN)
    paths = [path for _, path in sorted(chosen.values())]
    return [(*each, path) for path in paths for each in sections(files.texts[path])]


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


def _keyfiles(files: Files, device: BootDevice) -> Iterator[ConnectionProfile]:
    chosen: dict[str, tuple[str, Keyfile]] = {}
    for directory in _PROFILES:
        for match, text in files.matching(re.escape(directory) + "/[^/]+"):
            of = dict(sections(text))
            if not _LEFT_OUT.fullmatch(match[0]):
                uuid = last(of.get("connection", {}), "uuid")
                chosen.setdefault(uuid or match[0], (match[0], of))
    for file, of in chosen.values():
        connection = of.get("connection", {})
        if last(connection, "autoconnect") not in ("", *_YES):
            continue
        ips = [of.get(family, {}) for family in ("ipv4", "ipv6")]
        links = [of.get(kind, {}) for kind in _PORT_KINDS]
        names = last(connection, "interface-name"), *(last(each, "mac-address") for each in links)
        mtu = next((last(each, "mtu") for each in links if last(each, "mtu")), "")
        used = _last_use(files, last(connection, "uuid")) or _number(last(connection, "timestamp"))
        yield ConnectionProfile(
            file,
            (_number(last(connection, "autoconnect-priority")), used),
            _is_for(of, device),
            tuple(value.partition(",")[0] for value in _values(ips, r"address(es)?\d*")),
            "" if mtu in _OPEN else mtu,
            tuple(rule(value) for value in _values(ips, r"routing-rule\d+")),
            last(of.get("infiniband", {}), "transport-mode"),
            not any(names) and last(connection, "multi-connect") != _MULTIPLE,
        )


def _is_for(of: Keyfile, device: BootDevice) -> bool | None:
    connection, match = of.get("connection", {}), of.get("match", {})
    kind, name = last(connection, "type"), last(connection, "interface-name")
    answers: list[bool | None] = []
    if kind and kind not in _PORT_KINDS:  # it makes the device: by this name, or parent and number
        vlan = of.get("vlan", {})
        name = name or f"{last(vlan, 'parent')}.{last(vlan, 'id')}"
    elif not name and (device.made or last(of.get("infiniband", {}), "p-key")):
        return False
    elif kind and device.types:
        answers = [_PORT_KINDS[kind] in (*device.types, *(["ether"] if device.made else []))]
    answers += [not name or name == device.name]
    for link in (of.get(each, {}) for each in _PORT_KINDS if kind in ("", *_PORT_KINDS)):
        own = last(link, "mac-address")
        others = last(link, "mac-address-blacklist") or last(link, "mac-address-denylist")
        hits = map(device.has_address, filter(None, others.split(";")))
        answers += [None if each is None else not each for each in hits]
        answers += [device.has_address(own)] if own else []
    values = {"interface-name": (device.name,), "driver": device.drivers, "path": device.paths}
    for key in (*values, "kernel-command-line"):
        asked = [each.strip() for each in last(match, key).split(";") if each.strip()]
        answers += [boot_device.has_match(asked, values.get(key, ()))] if asked else []
    return boot_device.all_of(answers)


def _ifcfgs(files: Files, device: BootDevice) -> Iterator[ConnectionProfile]:
    for match, text in files.matching(re.escape(ifcfg.RED_HAT) + r"/ifcfg-[^/]+"):
        of = ifcfg.variables(text)
        name, hardware = of.get("DEVICE", ""), of.get("HWADDR", "")
        if _LEFT_OUT.fullmatch(match[0]) or not (name or hardware) or not ifcfg.starts_at_boot(of):
            continue
        mtu = of.get("MTU", "")
        yield ConnectionProfile(
            match[0],
            (_number(of.get("AUTOCONNECT_PRIORITY", "")), _last_use(files, of.get("UUID", ""))),
            boot_device.all_of(
                [name in ("", device.name), not hardware or device.has_address(hardware)]
            ),
            ifcfg.addresses(of),
            "" if mtu in _OPEN else mtu,
            tuple(rule(of[name]) for name in sorted(of) if name.startswith("ROUTING_RULE")),
            _CONNECTED.get(of.get("CONNECTED_MODE", "").lower(), ""),
        )


def _last_use(files: Files, uuid: str) -> int:
    """Return when a profile was used last, in seconds since 1970; 0 if never."""
    known = dict(sections(files.texts.get(_USED) or "")).get("timestamps", {})
    return _number(last(known, uuid))


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
