"""What `netplan get` prints of a node's devices."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Definition:
    """What netplan's files say of a device, by `netplan get`."""

    section: str  # such as ethernets or bonds
    name: str  # its name there; a device's, or any where it matches by something else
    match: dict[str, str]  # what it matches: name, macaddress, driver, of which it may have several
    set_name: str

    def is_for(self, netdev: str, mac: str, driver: str) -> bool:
        """Return whether it is for this device alone."""
        one = self.set_name or (netdev if "macaddress" in self.match else self.match.get("name"))
        return self.may_be_for(netdev, mac, driver) and (one or self.name) == netdev

    def may_be_for(self, netdev: str, mac: str, driver: str) -> bool:
        """Return whether it is for this device, and maybe for others."""
        if not self.match or self.set_name not in ("", netdev):
            return not self.match and self.name == netdev
        is_named = self.set_name or fnmatch.fnmatchcase(netdev, self.match.get("name", "*"))
        drivers = self.match.get("driver", "*").split()
        is_driven = any(fnmatch.fnmatchcase(driver, each) for each in drivers)
        return bool(is_named) and is_driven and self.match.get("macaddress", mac).lower() == mac


def parse(text: str) -> list[Definition]:
    """Return the definitions that `netplan get` prints: YAML in blocks, indented by two."""
    found: list[Definition] = []
    section = key = ""
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip())
        name, colon, value = line.strip().partition(":")
        of = found[-1].match if found and key == "match" and indent == 8 else {}
        if of and name.startswith("- "):
            of[list(of)[-1]] += " " + line.strip("- '\"")
        if not colon or name.startswith("- "):
            continue
        if indent == 2:
            section = name
        elif indent == 4:
            found.append(Definition(section, name.strip("'\""), {}, ""))
        elif indent == 6:
            key = name
            if name == "set-name" and found:
                found[-1] = replace(found[-1], set_name=value.strip(" '\""))
        elif indent == 8 and key == "match" and found:
            found[-1].match[name] = value.strip(" '\"")
    return found
