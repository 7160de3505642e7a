"""How a node's rails answer ARP, and what they take in. Runs on the node.

By default Linux answers on any device for any address it has, so with several rails in one
broadcast domain a peer may learn the wrong one (Linux Documentation/networking/ip-sysctl.rst).
IPv6 needs nothing: neighbours are answered by the device that has the address.
"""

from __future__ import annotations

from .. import sysctl
from ..machine import Machine
from ..plan import RUNNING, Change, Plan, Refused
from ..rails import Rail

# systemd-sysctl sets what is of a device when it appears (99-systemd.rules), so also after a
# driver's reload.
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
    text = _text(rails)
    _require_last(plan.machine, rails, text)
    for rail in rails:
        for name, (wanted, _) in SETTINGS.items():
            _plan_running(plan, rail, name, wanted)
    if rails:
        plan.file(OWN_FILE, text)
    else:
        plan.absent(OWN_FILE)


def _plan_running(plan: Plan, rail: Rail, name: str, wanted: str) -> None:
    path = sysctl.path_of(_key(rail.netdev, name))
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


def _require_last(machine: Machine, rails: list[Rail], text: str) -> None:
    """Refuse a later file that sets one of these otherwise at each boot."""
    found = sysctl.at_boot(machine, {OWN_FILE: text})
    for rail in rails:
        for name, (wanted, _) in SETTINGS.items():
            last = found[sysctl.path_of(_key(rail.netdev, name))]
            if last.value != wanted:
                raise Refused(
                    f"{last.file}:{last.line}: sets {_key(rail.netdev, name)} to {last.value} at "
                    f"boot, after {OWN_FILE}; expected {wanted}. Remove that line"
                )
