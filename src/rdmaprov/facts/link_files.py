"""What a boot gives a network device, by the files of the node's link manager.

Sources: systemd.network(5), systemd.link(5), interfaces(5), SUSE's ifcfg(5); netplan's YAML
reference; `netplan generate --root-dir` of 0.106, to which a test holds what is made of its files.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import yaml

from rdmaprov.facts import boot_device, ifcfg, network_manager
from rdmaprov.facts.devices import NET
from rdmaprov.facts.errors import CouldNotTell
from rdmaprov.facts.host import Host
from rdmaprov.facts.network_manager import Section, rule, sections
from rdmaprov.facts.text import Files, output, read_files

# An earlier one hides files of the same name in the later.
NETWORKD = tuple(
    f"{each}/systemd/network" for each in ("/etc", "/run", "/usr/local/lib", "/usr/lib")
)
DIRECTORIES = ("/run/netplan", "/etc/netplan", "/usr/lib/netplan", "/lib/netplan")
NETPLAN_PATHS = tuple(f"{each}/*.yaml" for each in DIRECTORIES)
_MANAGERS = (
    *(f"{each}/*.{kind}" for each in NETWORKD for kind in ("network", "link")),
    *(f"{each}/*.{kind}.d/*.conf" for each in NETWORKD for kind in ("network", "link")),
    *network_manager.PATHS,
    *NETPLAN_PATHS,
    "/etc/network/interfaces",
    "/etc/network/interfaces.d/*",
    f"{ifcfg.SUSE}/ifcfg-*",
)
PATHS = (*_MANAGERS, *boot_device.PATHS)
_RUN = re.compile("/run/(systemd/network|NetworkManager|netplan)/")
_Written = dict[str, tuple[str, tuple[str, ...]]]


@dataclass(frozen=True)
class Boot:
    """What a boot gives a device."""

    addresses: tuple[str, ...] = ()  # with prefix length
    mtu_bytes: int | None = None  # None if no file sets it
    # source and table of each routing rule; the table is a text
    rules: tuple[tuple[str, str], ...] = ()
    files: tuple[str, ...] = ()  # those that say so, or the places where nothing was found
    ipoib_mode: str = ""  # datagram or connected; empty if no file sets IPoIB's mode

    def __bool__(self) -> bool:
        """Return whether it sets anything of the device."""
        return bool(self.addresses or self.mtu_bytes is not None or self.ipoib_mode)

    @property
    def where(self) -> str:
        """Return the files in words."""
        return ", ".join(self.files) or "link managers' files, none names it"


def read(host: Host) -> Files:
    """Return all files of link managers; an empty one, and a link to /dev/null, has no text."""
    found = read_files(host, *PATHS)
    empty = output(host, f"grep -aLs '' {' '.join(_MANAGERS)} || true").splitlines()
    if not all(each.startswith("/") for each in empty):
        raise CouldNotTell(f"grep -L shows {empty[0][:60]!r}, not a file")
    return Files({**dict.fromkeys(empty, ""), **found.texts}, found.reasons)


def boot_settings(files: Files, netdev: str) -> Boot:
    """Return what the files give a device: the first manager that has something for it.

    Raises:
        CouldNotTell: none has, and a file cannot be read; one is in no known form, or may be for
            the device; or a file in /run decides, which the next boot may not write again.
    """
    netplans = written(files)
    texts = _without_netplans(files)
    found = _settings(_with_netplans(files, netplans), netdev)
    passing = [path for path in texts if _RUN.match(path)]
    if passing:
        lasting = {path: text for path, text in texts.items() if path not in passing}
        without = boot_settings(Files(lasting, files.reasons), netdev)
        if replace(without, files=()) != replace(found, files=()):
            why = f"without {', '.join(passing)}, and /run is empty after a boot"
            raise CouldNotTell(f"{netdev}: a boot gives it something else {why}")
    used = [name for path in found.files for name in netplans.get(path, ("", (path,)))[1]]
    return replace(found, files=tuple(dict.fromkeys(used)))


def require_name(files: Files, netdev: str) -> None:
    """Nothing, if udev names a device at the next boot, as far as its files can be matched.

    The first .link file that is for a device hides the distribution's, which has the policy of
    names; netplan writes one for an MTU [netplan src/networkd.c, write_link_file].

    Raises:
        CouldNotTell: the file gives no name, and the device has one that is not the kernel's.
    """
    own = boot_device.read(files, netdev)
    try:
        read, used = systemd_sections(_with_netplans(files, written(files)), netdev, "link")
    except CouldNotTell:
        return
    keys = [keys for title, keys in read if title == "Link"]
    named = [each.get("Name", []) + each.get("NamePolicy", []) for each in keys]
    if used and not any(map(any, named)) and not re.fullmatch(r"(eth|ib)\d+", own.name):
        why = "unless an initramfs names it, a boot leaves the name that the kernel gives"
        remedy = f"Add set-name: {netdev} to netplan's definition, or NamePolicy= to the file"
        raise CouldNotTell(f"{', '.join(used)}: gives {netdev} no name: {why}. {remedy}")


def _without_netplans(files: Files) -> dict[str, str]:
    return {path: text for path, text in files.texts.items() if not WRITTEN.match(path)}


def _with_netplans(files: Files, netplans: _Written) -> Files:
    """Return the files with what a boot has netplan write, in place of what the last one had."""
    ours = {path: text for path, (text, _) in netplans.items()}
    return Files({**_without_netplans(files), **ours}, files.reasons)


def _settings(files: Files, netdev: str) -> Boot:
    said = [each(files, netdev) for each in (_networkd, _network_manager, _ifupdown, _wicked)]
    found = next((each for each in said if each), max(said, key=lambda each: bool(each.files)))
    if not found:
        _require_readable(files, "/")
    if found.mtu_bytes is None and any("MTUBytes" in each for each in files.texts.values()):
        read, used = systemd_sections(files, netdev, "link")
        mtu = _size(read, used)
        return replace(found, mtu_bytes=mtu, files=(*found.files, *(used if mtu else ())))
    return found


def _require_readable(files: Files, start: str) -> None:
    """Raise CouldNotTell for a file that is there and cannot be read: it may be the one."""
    for path in files.reasons:
        if path.startswith(start) and not path.startswith(("/sys/", boot_device.UDEV)):
            files.get(path)


def _networkd(files: Files, netdev: str) -> Boot:
    read, used = systemd_sections(files, netdev, "network")
    of: dict[str, list[dict[str, list[str]]]] = {}
    for title, keys in read:
        of.setdefault(title, []).append(keys)
    places = [*of.get("Network", []), *of.get("Address", [])]
    addresses = [value for keys in places for value in keys.get("Address", [])]
    rules = [
        pair
        for keys in of.get("RoutingPolicyRule", [])
        for pair in zip(keys.get("From", []), keys.get("Table", []), strict=False)
    ]
    modes = [mode for keys in of.get("IPoIB", []) for mode in keys.get("Mode", [])]
    return Boot(tuple(addresses), _size(read, used), tuple(rules), used, "".join(modes[-1:]))


def systemd_sections(files: Files, netdev: str, kind: str) -> tuple[list[Section], tuple[str, ...]]:
    """Return what networkd or udev takes for a device, and from which files.

    The first file of this kind that matches, by name, with its drop-ins; nothing if none does.
    """
    device = boot_device.read(files, netdev)
    drop_ins = list(networkd_files(files, rf"[^/]+\.{kind}\.d/[^/]+\.conf"))
    for name, path in networkd_files(files, rf"[^/]+\.{kind}"):
        used = [path, *(each for at, each in drop_ins if at.startswith(f"{name}.d/"))]
        read = [each for one in used for each in sections(files.must(one).replace("\\\n", " "))]
        matches = [keys for title, keys in read if title == "Match"]
        names = [key for keys in matches for key in keys]
        match = {name: [v for keys in matches for v in keys.get(name, [])] for name in names}
        found = boot_device.is_for(match, device, "Name" if kind == "network" else "OriginalName")
        if found is None:
            raise CouldNotTell(f"{path}: not known if it is for {netdev}: {match}")
        if found:
            return read, tuple(used)
    return [], ()


def _size(read: list[Section], used: tuple[str, ...]) -> int | None:
    sizes = [mtu for title, keys in read if title == "Link" for mtu in keys.get("MTUBytes", [])]
    return _mtu(filter(None, sizes[-1:]), used, "BKMG")  # systemd's, to the base of 1024


def networkd_files(files: Files, pattern: str) -> Iterator[tuple[str, str]]:
    """Yield name below its directory and path, by name; an earlier directory hides a later one.

    An empty file is masked, and hides others all the same.
    """
    chosen: dict[str, tuple[int, str]] = {}
    for match, _ in files.matching(f"({'|'.join(NETWORKD)})/({pattern})"):
        found = (NETWORKD.index(match[1]), match[0])
        chosen[match[2]] = min(found, chosen.get(match[2], found))
    yield from ((name, path) for name, (_, path) in sorted(chosen.items()) if files.texts[path])


def _network_manager(files: Files, netdev: str) -> Boot:
    found = network_manager.profile(files, netdev)
    is_netplans = found is not None and WRITTEN.match(found.file)
    if not is_netplans and not network_manager.is_managed(files, netdev):
        return Boot()
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


def _mtu(values: Iterable[str], used: tuple[str, ...], units: str = "") -> int | None:
    for value in values:
        found = re.fullmatch(r"(\d+)\s*([A-Z]?)", value)
        if found is None or found[2] not in units:
            raise CouldNotTell(f"{', '.join(used)}: MTU {value!r} is not a number")
        return int(found[1]) << 10 * units.index(found[2])
    return None


_KINDS = {"ethernets": "ethernet", "bonds": "bond", "vlans": "vlan"}
_UNITS, _PROFILES = "/run/systemd/network/10-netplan-", "/run/NetworkManager/system-connections"
_RULE = ("from", "table")
# What it wrote at the last boot, and deletes at the next.
WRITTEN = re.compile(
    rf"{_UNITS}[^/]*|{_PROFILES}/netplan-.*"
    r"|/run/NetworkManager/conf\.d/(netplan|10-globally-managed-devices)\.conf"
)


def written(files: Files) -> _Written:
    """Return what a boot has netplan write: by path, the text and the files that it is made of."""
    found = {}
    for (kind, name), (entry, used) in _definitions(files).items():
        if kind != "ethernet" or entry.get("match") is None:
            entry["match"] = {"name": name}
        if entry.get("renderer") == "NetworkManager":
            texts = {f"{_PROFILES}/netplan-{name}.nmconnection": _profile(kind, entry)}
        else:
            texts = {f"{_UNITS}{name}.network": [*_unit("Name", entry), *_addressing(entry)]}
        if kind == "ethernet" and (entry.get("set-name") or entry.get("mtu")):
            named = f"Name={entry.get('set-name') or ''}"
            texts[f"{_UNITS}{name}.link"] = [*_unit("OriginalName", entry), named]
        found.update({path: ("\n".join(lines), tuple(used)) for path, lines in texts.items()})
    return found


def _definitions(files: Files) -> dict[tuple[str, str], tuple[dict[str, Any], list[str]]]:
    """Return by kind and name what all files together say, and which say it."""
    chosen: dict[str, str] = {}
    for directory in DIRECTORIES:
        for match, _ in files.matching(re.escape(directory) + r"/([^/]+\.yaml)"):
            chosen.setdefault(match[1], match[0])
    found: dict[tuple[str, str], tuple[dict[str, Any], list[str]]] = {}
    default = None
    for _, path in sorted(chosen.items()):
        try:
            network = (yaml.safe_load(files.texts[path]) or {}).get("network") or {}
            default = network.get("renderer", default)
            for section, kind in _KINDS.items():
                entries = dict(network.get(section) or {})
                of_all = {"renderer": entries.pop("renderer")} if "renderer" in entries else {}
                for name, entry in entries.items():
                    merged, used = found.setdefault((kind, str(name)), ({}, []))
                    used.append(path)
                    _merge(merged, {**of_all, **(entry or {})})
        except (yaml.YAMLError, TypeError, ValueError, AttributeError) as error:
            raise CouldNotTell(f"{path}: not netplan's YAML") from error
    for merged, _ in found.values():
        merged.setdefault("renderer", default)
    return found


def _merge(into: dict[str, Any], entry: dict[str, Any]) -> None:
    """Add a later file's definition: a value replaces, a list is added to."""
    for key, new in entry.items():
        old = into.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            into[key] = {**old, **new}
        elif isinstance(old, list) and isinstance(new, list):
            into[key] = old + [each for each in new if each not in old]
        else:
            into[key] = new


def _drivers(entry: dict[str, Any]) -> list[str]:
    driver = entry["match"].get("driver") or []
    return [driver] if isinstance(driver, str) else driver


def _unit(key: str, entry: dict[str, Any]) -> list[str]:
    """Return what files of systemd's begin with; by the key Name the device was renamed before."""
    name = (entry.get("set-name") if key == "Name" else "") or entry["match"].get("name") or ""
    lines = ["[Match]", f"Driver={' '.join(_drivers(entry))}", f"{key}={name}"]
    lines.append(f"PermanentMACAddress={entry['match'].get('macaddress') or ''}")
    return [*lines, "[Link]", f"MTUBytes={entry.get('mtu') or ''}"]


def _addressing(entry: dict[str, Any]) -> list[str]:
    lines = ["[Network]", *(f"Address={address}" for address in _addresses(entry))]
    for each in entry.get("routing-policy") or []:
        lines += ["[RoutingPolicyRule]", *(f"{key.title()}={each.get(key, '')}" for key in _RULE)]
    return [*lines, "[IPoIB]", f"Mode={entry.get('infiniband-mode') or ''}"]


def _profile(kind: str, entry: dict[str, Any]) -> list[str]:
    mode, renamed = entry.get("infiniband-mode") or "", entry.get("set-name")
    name = renamed or entry["match"].get("name") or ""
    address = "" if renamed else entry["match"].get("macaddress") or ""
    kind = "infiniband" if mode else kind
    lines = ["[connection]", f"type={kind}", "[match]", f"driver={';'.join(_drivers(entry))}"]
    lines.insert(4 if re.search(r"[*?\[]", name) else 2, f"interface-name={name}")
    lines += [f"[{'infiniband' if mode else 'ethernet'}]", f"transport-mode={mode}"]
    lines += [f"mtu={entry.get('mtu') or ''}", f"mac-address={address}", "[ipv4]"]
    lines += [f"address{number}={at}" for number, at in enumerate(_addresses(entry), 1)]
    for number, each in enumerate(entry.get("routing-policy") or [], 1):
        words = " ".join(f"{key} {each.get(key, '')}" for key in _RULE)
        lines.append(f"routing-rule{number}={words}")
    return lines


def _addresses(entry: dict[str, Any]) -> list[str]:
    """Return the addresses; one with options is a mapping."""
    found = entry.get("addresses") or []
    return [next(iter(one)) if isinstance(one, dict) else str(one) for one in found]
