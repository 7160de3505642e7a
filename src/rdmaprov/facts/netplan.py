"""What netplan writes at boot for systemd-networkd, udev and NetworkManager.

Sources: netplan's YAML reference; `netplan generate --root-dir` of 0.106, to which a test holds it.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from rdmaprov.facts.errors import CouldNotTell
from rdmaprov.facts.text import Files

# An earlier one hides files of the same name in the later.
DIRECTORIES = ("/run/netplan", "/etc/netplan", "/usr/lib/netplan", "/lib/netplan")
PATHS = tuple(f"{each}/*.yaml" for each in DIRECTORIES)
_KINDS = {"ethernets": "ethernet", "bonds": "bond", "vlans": "vlan"}
_UNITS, _PROFILES = "/run/systemd/network/10-netplan-", "/run/NetworkManager/system-connections"
_RULE = ("from", "table")
# What it wrote at the last boot, and deletes at the next.
WRITTEN = re.compile(
    rf"{_UNITS}[^/]*|{_PROFILES}/netplan-.*"
    r"|/run/NetworkManager/conf\.d/(netplan|10-globally-managed-devices)\.conf"
)


def written(files: Files) -> dict[str, tuple[str, tuple[str, ...]]]:
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
            texts[f"{_UNITS}{name}.link"] = _unit("OriginalName", entry)
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
    for rule in entry.get("routing-policy") or []:
        lines += ["[RoutingPolicyRule]", *(f"{key.title()}={rule.get(key, '')}" for key in _RULE)]
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
    for number, rule in enumerate(entry.get("routing-policy") or [], 1):
        words = " ".join(f"{key} {rule.get(key, '')}" for key in _RULE)
        lines.append(f"routing-rule{number}={words}")
    return lines


def _addresses(entry: dict[str, Any]) -> list[str]:
    """Return the addresses; one with options is a mapping."""
    found = entry.get("addresses") or []
    return [next(iter(one)) if isinstance(one, dict) else str(one) for one in found]
