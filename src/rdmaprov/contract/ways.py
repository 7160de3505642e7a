"""How nodes are reached: each in a way of its own, by relays that are hosts."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import cache

from rdmaprov.contract.rule import SiteRule, Violation
from rdmaprov.inventory.model import Fleet, Node
from rdmaprov.inventory.names import relay_names
from rdmaprov.inventory.resolve import ResolveError, Variables
from rdmaprov.inventory.tags import position_of

_RELAY = "fabric_relay"
_ADDRESS = ("ansible_host", "ansible_ssh_host")
_SSH = re.compile(r"smart|((ansible\.(builtin|netcommon)\.)?(ssh|paramiko(_ssh)?))")
# What else leads to another machine at the same address: each is compared as it is written.
_WAY = ("ansible_ssh_args", "ansible_ssh_common_args", "ansible_ssh_extra_args",
        "ansible_ssh_executable", "ansible_paramiko_proxy_command", _RELAY)  # fmt: skip
_LOOPBACK = re.compile(r"127\.[\d.]+|::1|localhost")
_ITSELF = "write fabric_relay: '' for it, or name the relay in a group that it is not in"


def _relays(fleet: Fleet) -> Iterator[tuple[Node, Violation]]:
    known = set(fleet.hosts)
    wrong = cache(lambda relay: _wrong(fleet, relay) if relay in known else _unknown(relay))
    for node in fleet.nodes:
        names = relay_names(node.get(_RELAY))
        for relay, count in Counter(names).items():
            if count > 1:
                yield node, Violation(_RELAY, f"{relay} is named {count} times", "name it once")
            if why := wrong(relay):
                yield node, Violation(_RELAY, *why)


def _unknown(relay: str) -> tuple[str, str]:
    return f"{relay} is no host of the inventory", "name one; fabric_node: false if it is no node"


def _wrong(fleet: Fleet, relay: str) -> tuple[str, str] | None:
    """Return what is wrong with a host as a relay, and what to write; None if nothing is."""
    try:
        own = relay_names(fleet.variables(relay).value(_RELAY))
    except (KeyError, ResolveError):  # which is reported where it is a node
        return None
    if relay in own:
        return f"{relay} is a relay of itself", _ITSELF
    return (f"{relay} has a relay itself, {', '.join(own)}", _ITSELF) if own else None


def _ways(fleet: Fleet) -> Iterator[tuple[Node, Violation]]:
    """Yield the nodes that are one machine to ssh; with a limit, those outside it count, too."""
    nodes = {node.name: node for node in fleet.nodes}
    if not any(node.written.intersection(_ADDRESS) for node in fleet.nodes):
        return
    by_address: dict[str, list[tuple[str, Variables]]] = defaultdict(list)
    for name in fleet.hosts:
        variables = fleet.variables(name)
        address = _first(variables, _ADDRESS, name)
        if address and not _LOOPBACK.fullmatch(address):  # nodes that are made up, or tunnels
            by_address[address].append((name, variables))
    for address, hosts in by_address.items():
        first: dict[tuple[str, ...], tuple[str, object]] = {}
        # Whose name alone is the address is not the one that is written wrong.
        for name, variables in sorted(hosts, key=lambda host: _is_written(host[1])):
            way = _way(variables) if len(hosts) > 1 else ()
            own = (name, _place(variables))
            other, place = first.setdefault(way, own) if way else own
            # Written once for several, such as for a group, it is meant.
            if other != name and name in nodes and own[1] != place:
                message = f"{name} is the same machine as {other}: address {address}, port {way[0]}"
                remedy = f"write {name}'s own address; or its port or jump host, if these differ"
                yield nodes[name], Violation(_ADDRESS[0], message, remedy, (), _ADDRESS[1:])


def _is_written(variables: Variables) -> bool:
    return any(name in variables for name in _ADDRESS)


def _place(variables: Variables) -> object:
    """Return where an address is written, None if it is not, or is made of others."""
    return next((position_of(variables.value(n)) for n in _ADDRESS if n in variables), None)


def _way(variables: Variables) -> tuple[str, ...]:
    """Return what a host is reached by at its address, empty if that is not known, or no matter."""
    kind = _first(variables, ("ansible_connection",), "ssh")
    if not _SSH.fullmatch(kind) or _first(variables, ("fabric_node",), "true") == "false":
        return ()
    port = _first(variables, ("ansible_port", "ansible_ssh_port"), "22")
    others = [_first(variables, (name,), "") for name in _WAY]
    # A program other than ssh -W may lead anywhere.
    if any("proxycommand" in text and "-w" not in text.split() for text in others):
        return ()
    return (port, *others)


def _first(variables: Variables, names: Sequence[str], default: str) -> str:
    """Return the first of some variables in small letters, empty if it has no value."""
    try:
        found = next((variables.value(name) for name in names if name in variables), default)
    except ResolveError:  # which is reported where it is a node
        return ""
    return str(found).lower()


RULES = (
    SiteRule("relays.host",
             "A relay is a host of the inventory, and is reached without a relay.",
             "docs/sizes.md", _relays),
    SiteRule("nodes.apart",
             "No two nodes have lines of their own with one address, port and jump host.",
             "Ansible documentation: ansible_host and ansible_port say where a host is", _ways),
)  # fmt: skip
