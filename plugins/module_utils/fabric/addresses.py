"""The addresses that a node's rails have now. Runs on the node."""

from __future__ import annotations

import ipaddress
import json
from dataclasses import dataclass
from typing import Any

from ..machine import Machine
from ..netdevs import vlan_parents
from ..plan import RUNNING, Change, Plan, Refused
from ..rails import Rail


@dataclass(frozen=True)
class Link:
    """A network device and its addresses."""

    up: bool  # whether it is switched on; a cable is another matter
    addresses: list[str]  # those of global scope, with prefix length
    own: list[str]  # those of them that somebody gave, and no router's advertisement
    duplicate: list[str]  # those of them that another machine has too


# A partition's interface that the plan makes.
_NEW = Link(False, [], [], [])


def read(machine: Machine) -> dict[str, Link]:
    """Return the node's network devices, by name."""
    shown = json.loads(machine.run(["ip", "-j", "address", "show"]) or "[]")
    return {str(entry["ifname"]): _link(entry) for entry in shown if "ifname" in entry}


def plan_addresses(plan: Plan, rails: list[Rail], given: dict[str, list[str]]) -> None:
    """Add the steps after which each rail is up, with its address and none of another rail.

    Args:
        given: by network device, the addresses that this role gave it.

    Raises:
        Refused: a rail has an address that the site does not name, or a device that is no rail
            has a rail's.
    """
    links = {rail.netdev: _NEW for rail in rails if rail.parent} | read(plan.machine)
    owners = {host(rail.address): rail for rail in rails if rail.address}
    _require_known(links, rails, owners, given)
    wrong = [(rail, address) for rail in rails for address in _wrong(links[rail.netdev], rail)]
    # One IPv6 address cannot be on a device twice, with two prefix lengths. A device's last IPv4
    # address takes all its IPv4 routes with it (Linux net/ipv4/fib_frontend.c, fib_disable_ip).
    for rail, address in wrong:
        if ":" in address:
            _remove(plan, rail, address)
    _plan_up(plan, rails, links)
    for rail in rails:
        if rail.address and _plain(rail.address) not in links[rail.netdev].addresses:
            _add(plan, rail)
    for rail, address in wrong:
        if ":" not in address:
            _remove(plan, rail, address)


def _plan_up(plan: Plan, rails: list[Rail], links: dict[str, Link]) -> None:
    """Have the rails up; the kernel refuses a VLAN whose parent is down (ENETDOWN)."""
    wanted = [
        netdev
        for rail in rails
        for netdev in (*vlan_parents(plan.machine, rail.netdev), rail.netdev)
    ]
    for netdev in dict.fromkeys(wanted):
        if netdev in links and not links[netdev].up:
            switch = ["ip", "link", "set", "dev", netdev]
            change = Change(RUNNING, netdev, "link", "down", "up")
            plan.command(change, [*switch, "up"], [[*switch, "down"]])


def host(address: str) -> str:
    """Return an address without its prefix length, as ip writes it."""
    return str(ipaddress.ip_interface(address).ip)


def _plain(address: str) -> str:
    return str(ipaddress.ip_interface(address))


def _link(entry: dict[str, Any]) -> Link:
    infos = [info for info in entry.get("addr_info", []) if info.get("scope") == "global"]

    def those(*flags: str) -> list[str]:
        return [
            _plain(f"{info['local']}/{info['prefixlen']}")
            for info in infos
            if not flags or any(info.get(flag) for flag in flags)
        ]

    advertised = those("dynamic", "temporary", "mngtmpaddr")
    own = [each for each in those() if "." in each or each not in advertised]
    return Link("UP" in entry.get("flags", []), those(), own, those("dadfailed"))


def _wrong(link: Link, rail: Rail) -> list[str]:
    """Return the addresses to take from a rail; what the site does not know was refused before."""
    return [each for each in link.own if rail.address and each != _plain(rail.address)]


def _require_known(
    links: dict[str, Link], rails: list[Rail], owners: dict[str, Rail], given: dict[str, list[str]]
) -> None:
    named = {rail.netdev: rail for rail in rails}
    for netdev, link in links.items():
        for address in link.own:
            owner, rail = owners.get(host(address)), named.get(netdev)
            if owner and not rail:
                raise Refused(
                    f"{netdev}: has {address}, expected on rail {owner.index}, {owner.netdev} "
                    "(fabric_rails; ip address). "
                    f"Remove it from {netdev} and from its configuration"
                )
            if rail and rail.address and not owner and address not in given[netdev]:
                raise Refused(
                    f"{netdev}: has {address}, expected {rail.address} alone (fabric_rails; ip "
                    "address). Remove it from its configuration, then run on the node: "
                    f"ip address del {address} dev {netdev}"
                )
        for address in link.duplicate:
            if netdev in named:
                raise Refused(
                    f"{netdev}: another host has {address} too (ip address: dadfailed). "
                    "Correct fabric_rails of one of them"
                )


def _add(plan: Plan, rail: Rail) -> None:
    interface = ipaddress.ip_interface(rail.address)
    words = ["dev", rail.netdev]
    change = Change(RUNNING, rail.netdev, "address", "none", str(interface))
    plan.command(
        change,
        # The node's link manager may have added it when the link came up before.
        ["ip", "address", "replace", str(interface), *_broadcast(interface), *words],
        [["ip", "address", "del", str(interface), *words]],
    )


def _remove(plan: Plan, rail: Rail, address: str) -> None:
    words = [address, "dev", rail.netdev]
    change = Change(RUNNING, rail.netdev, "address", address, "not here")
    undo = [["ip", "address", "add", *words, *_broadcast(ipaddress.ip_interface(address))]]
    plan.command(change, ["ip", "address", "del", *words], undo)
    plan.interrupt(f"{rail.netdev} {address}", "connections from this address break", "for good")


def _broadcast(interface: ipaddress.IPv4Interface | ipaddress.IPv6Interface) -> list[str]:
    """Return the words for a broadcast address, which link managers give too."""
    # A subnet of two or one has none (RFC 3021).
    return ["brd", "+"] if interface.version == 4 and interface.network.prefixlen < 31 else []
