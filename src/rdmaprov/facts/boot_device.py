"""What a network device is to the link managers that look for files for it at boot.

None is what is not known. Sources: systemd src/shared/net-condition.c and systemd.link(5), section
[Match]; nm-settings-nmcli(5), match.interface-name; NetworkManager.conf(5), "Device List Format".
"""

import fnmatch
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rdmaprov.facts.devices import NET
from rdmaprov.facts.text import Files

UDEV = "/run/udev/data/n"
_READ = "address addr_assign_type bonding_slave/perm_hwaddr device/uevent ifindex name_assign_type"
PATHS = (f"{UDEV}*", *(f"{NET}/*/{each}" for each in [*_READ.split(), "type", "uevent"]))
# Linux include/uapi/linux/if_arp.h, netdevice.h: NET_NAME_RENAMED, NET_ADDR_SET
_TYPES = {"1": "ether", "32": "infiniband", "772": "loopback"}
_RENAMED, _ADDRESS_SET = "4", "3"
_MADE_BY = {"bond": "bonding", "vlan": "802.1Q VLAN Support", "bridge": "bridge"}
# systemd.network(5): keys without globs, most of them of the host, or of wireless devices.
_OTHERS = ["MACAddress", "PermanentMACAddress", "Property", "SSID", "BSSID", "Host", "Firmware"]
_OTHERS += ["Virtualization", "KernelCommandLine", "KernelVersion", "Architecture", "Credential"]
# The values that a device may have: one if it is known, none if nothing is. "" for what it has not.
Values = tuple[str, ...]


@dataclass(frozen=True)
class BootDevice:
    """A network device as a boot sees it: by its own hardware address, not that of its bond."""

    name: str
    address: str
    is_permanent: bool | None
    made: str  # what the kernel makes it as, such as bond or vlan; empty for a card's port
    types: Values
    paths: Values
    drivers: Values
    names: Values
    properties: Mapping[str, str]

    def has_address(self, text: str, *, is_own: bool = True, last: int = 8) -> bool | None:
        """Return whether a hardware address is the device's, and by is_own its permanent one.

        NetworkManager compares the last 8 of IPoIB's 20 bytes [nm_utils_hwaddr_matches].
        """
        one, other = _digits(text), _digits(self.address)
        size = 2 * last if len(other) == 40 else 12
        found = one[-size:] == other[-size:] if other else None
        return found and (self.is_permanent if is_own else True)


def read(files: Files, name: str) -> BootDevice:
    """Return what the kernel's and udev's files say of a device."""

    def of(attribute: str) -> str:
        return (files.texts.get(f"{NET}/{name}/{attribute}") or "").strip()

    uevent, card = _assigned(of("uevent")), _assigned(of("device/uevent"))
    known = _assigned(files.texts.get(UDEV + of("ifindex")) or "", "E:")
    made, own = uevent.get("DEVTYPE", ""), of("bonding_slave/perm_hwaddr")
    kind = made or _TYPES.get(of("type"), of("type"))
    first = "ib" if kind == "infiniband" else "eth"
    path = known.get("ID_PATH") or f"pci-{card.get('PCI_SLOT_NAME', '')}".removesuffix("pci-")
    driver = known.get("ID_NET_DRIVER") or card.get("DRIVER") or _MADE_BY.get(made, "")
    is_open = first == "ib" and "ID_NET_DRIVER" not in known  # ethtool may show IPoIB's
    # Its name was eth0 or so until udev renamed it, which an initramfs may have done already.
    earlier = range(64) if of("name_assign_type") == _RENAMED else ()
    types, paths = ((kind,) if kind else ()), ((path,) if path or made else ())
    drivers = (driver, *([f"{driver}[ib_ipoib]"] * is_open)) if driver or made else ()
    names = (name, *(f"{first}{number}" for number in earlier))
    unset = {"": ""} if known else {}  # what udev's own list lacks is not set
    properties = {**uevent, **({"ID_NET_DRIVER": driver} if driver else {}), **known, **unset}
    is_set = of("addr_assign_type") == _ADDRESS_SET
    permanent = False if made else bool(own) or (None if is_set else True)
    address = own or of("address")
    return BootDevice(name, address, permanent, made, types, paths, drivers, names, properties)


def is_for(match: Mapping[str, list[str]], device: BootDevice, name_key: str) -> bool | None:
    """Return whether systemd's section [Match], values by key, is for a device.

    One without a valid key is for none: the program ignores its file, whatever its manual says.
    """
    names = device.names if name_key == "OriginalName" else (device.name,)
    globs = {"Path": device.paths, "Driver": device.drivers, "Type": device.types, name_key: names}
    kinds = ("", "ipoib") if "infiniband" in device.types else (device.made,)
    globs["Kind"] = kinds if device.made or device.paths else ()
    answers: list[bool | None] = []
    for key, words in ((key, _words(values)) for key, values in match.items()):
        if not words or key not in (*globs, *_OTHERS):
            continue
        if key in globs:
            answers.append(has_match(words, globs[key]))
        elif key.endswith("MACAddress"):
            own = key != "MACAddress"
            hits = [device.has_address(word, is_own=own, last=20) for word in words]
            answers.append(any_of(hits))
        elif key == "Property":
            answers += [_has_property(word, device) for word in words]
        else:
            answers.append(None)
    return all_of(answers) if answers else False


def is_listed(text: str, device: BootDevice) -> bool | None:
    """Return whether NetworkManager's list of devices has a device."""
    specs = [each.strip() for each in re.split("[,;]", text) if each.strip()]
    wanted = [_is_meant(each, device) for each in specs if not each.startswith("except:")]
    out = [_is_meant(each[7:], device) for each in specs if each.startswith("except:")]
    left = [None if each is None else not each for each in out]
    return all_of([any_of(wanted) if wanted else bool(out), *left])


def has_match(patterns: Iterable[str], values: Values) -> bool | None:
    """Return whether a list of patterns holds, of which those with & or ! must, or else any."""
    words = [re.match(r"([|&]?)(!?)\\?", each) for each in patterns]
    parts = [(each[1], each[2], each.string[each.end() :]) for each in words if each]

    def holds(value: str) -> bool:
        hits = [
            (sign == "&" or bool(no and not sign), _is_glob(value, glob) != bool(no))
            for sign, no, glob in parts
        ]
        rest = [hit for is_needed, hit in hits if not is_needed]
        return all(hit for is_needed, hit in hits if is_needed) and (any(rest) or not rest)

    return _same(map(holds, values))


def _is_glob(value: str, pattern: str) -> bool:
    return bool(value) and fnmatch.fnmatchcase(value, pattern)


def _is_meant(spec: str, device: BootDevice) -> bool | None:
    tag, colon, value = spec.partition(":")
    if tag == "interface-name" and not value.startswith("="):
        return fnmatch.fnmatchcase(device.name, value.removeprefix("~"))
    if tag == "type":
        return _same(value == {"ether": "ethernet"}.get(each, each) for each in device.types)
    if tag == "driver":
        return _same(value == each for each in device.drivers) if "/" not in value else None
    if tag == "mac" or re.fullmatch("[0-9a-fA-F]{2}(:[0-9a-fA-F]{2})+", spec):
        return device.has_address(spec.removeprefix("mac:"))
    is_known = not colon or tag == "interface-name"
    return spec in ("*", device.name, f"interface-name:={device.name}") if is_known else None


def _words(values: Iterable[str]) -> list[str]:
    """Return what the lines of a key add up to: ! is for its whole line, an empty one resets."""
    found: list[str] = []
    for value in values:
        sign = "!" if value.startswith("!") else ""
        words = [sign + word.strip("\"'") for word in value.removeprefix("!").split()]
        found = [*found, *words] if value else []
    return found


def _has_property(word: str, device: BootDevice) -> bool | None:
    name, _, pattern = word.lstrip("!").partition("=")
    seen = device.properties.get(name, device.properties.get(""))
    return None if seen is None else _is_glob(seen, pattern) != word.startswith("!")


def _same(found: Iterable[bool]) -> bool | None:
    """Return what is so for all values that a device may have."""
    answers = set(found)
    return answers.pop() if len(answers) == 1 else None


def any_of(found: Iterable[bool | None]) -> bool | None:
    """Return whether one is true."""
    answers = set(found)
    return True if True in answers else None if None in answers else False


def all_of(found: Iterable[bool | None]) -> bool | None:
    """Return whether all are true."""
    answers = set(found)
    return False if False in answers else None if None in answers else True


def _assigned(text: str, start: str = "") -> dict[str, str]:
    lines = (line[len(start) :] for line in text.splitlines() if line.startswith(start))
    return dict(line.split("=", 1) for line in lines if "=" in line)


def _digits(text: str) -> str:
    """Return the digits of a hardware address; older keyfiles have its bytes as decimals."""
    if re.fullmatch(r"(\d{1,3};)+", text):
        return "".join(f"{int(each):02x}" for each in text.split(";") if each)
    return re.sub(r"[:.-]", "", text).lower()
