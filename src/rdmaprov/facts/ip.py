"""Addresses, routes, rules, neighbours and queueing disciplines, by iproute2's JSON."""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rdmaprov.facts.errors import CouldNotTell
from rdmaprov.facts.host import Host
from rdmaprov.facts.memo import remember
from rdmaprov.facts.text import output, parse_json, run_program

ADDRESSES = "ip -j address show"
# Rules that only look at the source have these keys and no other.
_ONLY_SOURCE = {"priority", "src", "srclen", "table", "protocol", "flags"}
_TABLES = {"local": 255, "main": 254, "default": 253}


@dataclass(frozen=True)
class RoutingRule:
    """A routing rule: what comes from a source goes by a table."""

    priority: int
    source: str
    table: int

    def __str__(self) -> str:
        """Return it as `ip rule` prints it."""
        return f"{self.priority}: from {self.source} lookup {self.table}"


@dataclass(frozen=True)
class Route:
    """A route: to a network, over a gateway (empty for none) and a network device."""

    to: str
    gateway: str
    netdev: str

    def __str__(self) -> str:
        """Return it as `ip route` prints it."""
        return f"{self.to}{f' via {self.gateway}' if self.gateway else ''} dev {self.netdev}"


def addresses(host: Host) -> Mapping[str, tuple[str, ...]]:
    """Return each network device's addresses of global scope, with prefix length."""
    return parse_addresses(output(host, ADDRESSES))


@remember
def parse_addresses(text: str) -> Mapping[str, tuple[str, ...]]:
    """Return what `ip -j address show` has, as `addresses` does."""
    found = {}
    for entry in _entries(text, ADDRESSES):
        infos = entry.get("addr_info")
        if "ifname" not in entry or not isinstance(infos, list):
            raise CouldNotTell(f"{ADDRESSES}: an entry has no ifname and addr_info")
        found[str(entry["ifname"])] = tuple(
            f"{each['local']}/{each['prefixlen']}"
            for each in infos
            if each.get("scope") == "global" and "local" in each
        )
    return found


def rules(host: Host, family: int) -> tuple[RoutingRule, ...]:
    """Return the rules of a family, 4 or 6, that only look at the source."""
    command = f"ip -N -j -{family} rule show"
    return tuple(
        _rule(entry, command)
        for entry in _entries(output(host, command), command)
        if set(entry) <= _ONLY_SOURCE
    )


def _rule(entry: dict[str, Any], command: str) -> RoutingRule:
    table = str(entry.get("table", ""))
    if "priority" not in entry or not (table.isdigit() or table in _TABLES):
        raise CouldNotTell(f"{command}: an entry has no priority and table: {entry}")
    length = f"/{entry['srclen']}" if "srclen" in entry else ""
    return RoutingRule(
        int(entry["priority"]),
        str(entry.get("src", "all")) + length,
        int(table) if table.isdigit() else _TABLES[table],
    )


def routes(host: Host, family: int, table: int) -> tuple[Route, ...]:
    """Return the routes of a table; none for one that does not exist."""
    command = f"ip -N -j -{family} route show table {table}"
    done = run_program(host, command)
    if done.rc != 0 and "table does not exist" in done.stderr:
        return ()
    if done.rc != 0:
        raise CouldNotTell(f"{command}: {done.last}")
    return tuple(_route(each) for each in _entries(done.stdout, command))


def _route(entry: dict[str, Any]) -> Route:
    """Return a route; an IPv6 router of an IPv4 route is shown as `via`, and no `gateway`."""
    via = entry.get("via")
    router = via.get("host", "") if isinstance(via, dict) else entry.get("gateway", "")
    return Route(str(entry.get("dst", "")), str(router), str(entry.get("dev", "")))


def disciplines(host: Host) -> dict[str, tuple[str, ...]]:
    """Return the kinds of each network device's queueing disciplines, the root one first."""
    command = "tc -j qdisc show"
    found: dict[str, tuple[str, ...]] = {}
    for entry in _entries(output(host, command), command):
        if "dev" not in entry or "kind" not in entry:
            raise CouldNotTell(f"{command}: an entry has no dev and kind: {entry}")
        before = found.get(str(entry["dev"]), ())
        kind = (str(entry["kind"]),)
        found[str(entry["dev"])] = kind + before if entry.get("root") else before + kind
    return found


def same(one: str, other: str) -> bool:
    """Return whether two addresses with prefix length are the same, however they are written."""
    try:
        return ipaddress.ip_interface(one) == ipaddress.ip_interface(other)
    except ValueError:
        return False


def _entries(text: str, command: str) -> list[dict[str, Any]]:
    shown = parse_json(text, command)
    if shown is None:
        return []
    if not isinstance(shown, list) or not all(isinstance(each, dict) for each in shown):
        raise CouldNotTell(f"{command}: not a list of entries: {text[:60]!r}")
    return [each for each in shown if each]  # iproute2 prints {} for what it filtered
