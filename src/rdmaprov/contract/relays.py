"""Relays: hosts over which nodes are asked."""

from collections.abc import Iterator

from rdmaprov.contract.rule import SiteRule, Violation
from rdmaprov.inventory.model import Fleet, Node
from rdmaprov.inventory.resolve import ResolveError

_RELAY = "fabric_relay"
_ITSELF = "write fabric_relay: '' for it, or name the relay in a group that it is not in"


def _relays(fleet: Fleet) -> Iterator[tuple[Node, Violation]]:
    known = set(fleet.hosts)
    wrong: dict[str, tuple[str, str]] = {}
    for node in fleet.nodes:
        relay = node.get(_RELAY)
        if not relay:
            continue
        if relay not in wrong:
            wrong[relay] = _wrong(fleet, relay) if relay in known else _unknown(relay)
        if wrong[relay][0]:
            yield node, Violation(_RELAY, *wrong[relay])


def _unknown(relay: str) -> tuple[str, str]:
    return f"{relay} is no host of the inventory", "name one; fabric_node: false if it is no node"


def _wrong(fleet: Fleet, relay: str) -> tuple[str, str]:
    """Return what is wrong with a host as a relay, and what to write; empty if nothing is."""
    try:
        own = str(fleet.variables(relay).value(_RELAY) or "")
    except (KeyError, ResolveError):  # which is reported where it is a node
        return "", ""
    if own == relay:
        return f"{relay} is a relay of itself", _ITSELF
    return (f"{relay} has a relay itself, {own}", _ITSELF) if own else ("", "")


RULES = (
    SiteRule("relays.host",
             "A relay is a host of the inventory, and is reached without a relay.",
             "docs/sizes.md", _relays),
)  # fmt: skip
