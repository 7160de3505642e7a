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


def plan_arp(plan: Plan, rails: list[Rail], entries: int = 0) -> None:
    """Add the steps after which the rails answer for themselves alone, now and after a boot.

    Args:
        rails: those with an IPv4 address.
        entries: that the node's neighbor tables must hold; 0 leaves them alone.
    """
    tables = _tables(plan.machine, entries)
    text = _text(rails, tables)
    _require_last(plan.machine, rails, text, tables)
    for key, wanted in tables.items():
        _plan_running(plan, "neighbor table", key, key.replace("/", "."), wanted)
    for rail in rails:
        for name, (wanted, _) in SETTINGS.items():
            _plan_running(plan, rail.netdev, _key(rail.netdev, name), name, wanted)
    if rails or tables:
        plan.file(OWN_FILE, text)
    else:
        plan.absent(OWN_FILE)


def _plan_running(plan: Plan, device: str, key: str, name: str, wanted: str) -> None:
    path = sysctl.path_of(key)
    seen = plan.machine.value(path)
    if seen == wanted:
        return
    undo = [["sysctl", "-q", "-w", f"{key}={seen}"]]
    change = Change(RUNNING, device, name, seen or "unknown", wanted)
    plan.add(change, lambda: plan.machine.set(path, wanted), undo)


def _tables(machine: Machine, entries: int) -> dict[str, str]:
    """Return by sysctl's name the sizes of the neighbor tables (arp(7)); a larger one stays."""
    found = {}
    for family in ("ipv4", "ipv6"):
        for number, factor in ((1, 1), (2, 2), (3, 4)):
            key = f"net/{family}/neigh/default/gc_thresh{number}"
            seen = machine.value(sysctl.path_of(key))
            if entries and seen is not None and seen.isdigit():
                found[key] = str(max(entries * factor, int(seen)))
    return found


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


def _require_last(machine: Machine, rails: list[Rail], text: str, tables: dict[str, str]) -> None:
    """Refuse a later file that sets one of these otherwise at each boot, or a table smaller."""
    found = sysctl.at_boot(machine, {OWN_FILE: text})
    values = {name: wanted for name, (wanted, _) in SETTINGS.items()}
    own = {_key(rail.netdev, name): values[name] for rail in rails for name in values}
    for key, wanted in {**own, **tables}.items():
        last = found[sysctl.path_of(key)]
        is_larger = key in tables and last.value.isdigit() and int(last.value) > int(wanted)
        if last.value != wanted and not is_larger:
            raise Refused(
                f"{last.file}:{last.line}: sets {key} to {last.value} at boot, after {OWN_FILE}; "
                f"expected {wanted}. Remove that line"
            )
