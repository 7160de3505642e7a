"""What `netplan get` prints of a node's devices."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Definition:
    """What netplan's files say of a device, by `netplan get`.

    Args:
        section: such as ethernets or bonds.
        name: its name there; a device's, or any where it matches by something else.
        match: what it matches: name, macaddress, driver.
        set_name: the name that the device is given.

    """

    section: str
    name: str
    match: dict[str, str]
    set_name: str

    def is_for(self, netdev: str, mac: str) -> bool:
        """Return whether it is for this device alone."""
        if not self.match:
            return self.name == netdev
        if self.set_name:
            return self.set_name == netdev
        return self.match.get("macaddress", "").lower() == mac or self.match.get("name") == netdev

    def may_be_for(self, netdev: str) -> bool:
        """Return whether it is for several devices, of which this may be one."""
        pattern = self.match.get("name", "")
        is_wide = bool(self.match) and not self.set_name and "macaddress" not in self.match
        return is_wide and (not pattern or fnmatch.fnmatchcase(netdev, pattern))


def parse(text: str) -> list[Definition]:
    """Return the definitions that `netplan get` prints: YAML in blocks, indented by two."""
    found: list[Definition] = []
    section = key = ""
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip())
        name, colon, value = line.strip().partition(":")
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
