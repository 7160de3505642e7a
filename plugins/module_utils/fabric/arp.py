"""How a node's rails answer ARP, and what they take in. Runs on the node.

By default Linux answers on any device for any address it has, so with several rails in one
broadcast domain a peer may learn the wrong one (Linux Documentation/networking/ip-sysctl.rst).
IPv6 needs nothing: neighbours are answered by the device that has the address.
"""

from __future__ import annotations

from functools import partial

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


def plan_arp(plan: Plan, rails: list[Rail], entries: int = 0) -> None:
    """Add the steps after which the rails answer for themselves alone, now and after a boot.

    Args:
        rails: those with an IPv4 address.
        entries: that the node's neighbor tables must hold; 0 leaves them alone.

    """
    tables = _tables(plan.machine, entries)
    text = _text(rails, tables)
    _require_last(plan.machine, rails, text)
    _require_tables(plan.machine, tables, text)
    for key, wanted in tables.items():
        path = sysctl.path_of(key)
        seen = plan.machine.value(path) or ""
        if seen != wanted:
            change = Change(RUNNING, "neighbor table", key.replace("/", "."), seen, wanted)
            plan.add(change, partial(plan.machine.set, path, wanted))
    for rail in rails:
        for name, (wanted, _) in SETTINGS.items():
            _plan_running(plan, rail, name, wanted)
    if rails or tables:
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


def _tables(machine: Machine, entries: int) -> dict[str, str]:
    """Return sysctl's names and the sizes of the neighbor tables; a larger one stays.

    They are the kernel's, for all network devices together (arp(7)). Below gc_thresh1 nothing is
    removed, above gc_thresh2 for 5 s at most, and gc_thresh3 is the end.
    """
    found = {}
    for family in ("ipv4", "ipv6"):
        for number, factor in ((1, 1), (2, 2), (3, 4)):
            key = f"net/{family}/neigh/default/gc_thresh{number}"
            seen = machine.value(sysctl.path_of(key))
            if entries and seen is not None and seen.isdigit():
                found[key] = str(max(entries * factor, int(seen)))
    return found


def _require_tables(machine: Machine, tables: dict[str, str], text: str) -> None:
    """Refuse a later file that makes a neighbor table smaller at each boot."""
    found = sysctl.at_boot(machine, {OWN_FILE: text})
    for key, wanted in tables.items():
        last = found[sysctl.path_of(key)]
        if not last.value.isdigit() or int(last.value) < int(wanted):
            raise Refused(
                f"{last.file}:{last.line}: sets {key} to {last.value} at boot, after {OWN_FILE}; "
                f"expected {wanted} or more. Remove that line, or lower fabric_neighbor_entries"
            )


def _key(netdev: str, name: str) -> str:
    # With slashes a dot in a device's name is one (sysctl.d(5)).
    return f"net/ipv4/conf/{netdev}/{name}"


def _text(rails: list[Rail], tables: dict[str, str]) -> str:
    lines = ["# Written by rdmaprov (fabric); changes here are lost."]
    if rails:
        lines += [f"# {name}: {why}." for name, (_, why) in SETTINGS.items()]
    for rail in rails:
        lines += [f"{_key(rail.netdev, name)} = {value}" for name, (value, _) in SETTINGS.items()]
    lines += [f"{key} = {value}" for key, value in tables.items()]
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
