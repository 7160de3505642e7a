"""How a node's rails answer ARP, and what they take in. Runs on the node.

By default Linux answers on any device for any address it has, so with several rails in one
broadcast domain a peer may learn the wrong one (Linux Documentation/networking/ip-sysctl.rst).
IPv6 needs nothing: neighbours are answered by the device that has the address.
"""

from __future__ import annotations

import re

from .machine import Machine
from .plan import RUNNING, Change, Plan, Refused
from .rails import Rail

# systemd-sysctl sets what is of a device when it appears (99-systemd.rules), so also after a
# driver's reload.
DIRECTORIES = ("/usr/lib/sysctl.d", "/run/sysctl.d", "/etc/sysctl.d")
OWN_FILE = "/etc/sysctl.d/90-rdmaprov-fabric.conf"
SETTINGS = {
    "arp_ignore": ("1", "answer only for addresses of the device that was asked"),
    "arp_announce": ("2", "ask in the name of the address that the peer knows"),
    # The kernel takes the larger of `all` and this: 1 (strict) on `all` becomes 2 here.
    "rp_filter": ("2", "take in what may come another way: peers answer by their own tables"),
}


def plan_arp(plan: Plan, rails: list[Rail]) -> None:
    """Add the steps after which the rails answer for themselves alone, now and after a boot.

    Args:
        rails: those with an IPv4 address.

    """
    _require_last(plan.machine, rails)
    for rail in rails:
        for name, (wanted, _) in SETTINGS.items():
            _plan_running(plan, rail, name, wanted)
    if rails:
        plan.file(OWN_FILE, _text(rails))
    else:
        plan.absent(OWN_FILE)


def _plan_running(plan: Plan, rail: Rail, name: str, wanted: str) -> None:
    path = f"/proc/sys/net/ipv4/conf/{rail.netdev}/{name}"
    seen = plan.machine.value(path)
    if seen == wanted:
        return
    key = _key(rail.netdev, name)
    undo = [["sysctl", "-q", "-w", f"{key}={seen}"]]
    change = Change(RUNNING, rail.netdev, name, seen or "unknown", wanted)
    plan.add(change, lambda: plan.machine.set(path, wanted), undo)


def _key(netdev: str, name: str) -> str:
    # With slashes a dot in a device's name is one (sysctl.d(5)).
    return f"net/ipv4/conf/{netdev}/{name}"


def _text(rails: list[Rail]) -> str:
    lines = ["# Written by rdmaprov (fabric); changes here are lost."]
    for name, (_, why) in SETTINGS.items():
        lines.append(f"# {name}: {why}.")
    for rail in rails:
        lines += [f"{_key(rail.netdev, name)} = {value}" for name, (value, _) in SETTINGS.items()]
    return "\n".join(lines) + "\n"


def _require_last(machine: Machine, rails: list[Rail]) -> None:
    """Refuse a later file that sets one of these otherwise at each boot."""
    keys = {_key(rail.netdev, name): wanted for rail in rails for name, (wanted, _) in _items()}
    for path in _later_files(machine):
        for line in (machine.read(path) or "").splitlines():
            key, _, value = (part.strip() for part in line.lstrip("- \t").partition("="))
            if keys.get(_slashed(key), value) != value:
                raise Refused(
                    f"{path} sets {key} = {value} at boot, after {OWN_FILE}; wanted "
                    f"{keys[_slashed(key)]}. Remove that line"
                )


def _items() -> list[tuple[str, tuple[str, str]]]:
    return list(SETTINGS.items())


def _later_files(machine: Machine) -> list[str]:
    """Return the files that are read after ours, by their names whatever their directory."""
    own = OWN_FILE.rpartition("/")[2]
    found = {
        name: f"{directory}/{name}"
        for directory in DIRECTORIES
        for name in machine.names(directory)
        if name.endswith(".conf") and name > own
    }
    # Read last of all by sysctl --system, and as 99-sysctl.conf by systemd on Debian.
    return [*(found[name] for name in sorted(found)), "/etc/sysctl.conf"]


def _slashed(key: str) -> str:
    """Return a key with slashes: the first separator tells which of the two it has."""
    first = re.search(r"[./]", key)
    if first is None or first.group() == "/":
        return key
    return key.translate(str.maketrans("./", "/."))
