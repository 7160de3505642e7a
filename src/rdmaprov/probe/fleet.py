"""A fleet's nodes, reached over rdmaprov's own connections."""

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from rdmaprov.inventory import Fleet
from rdmaprov.inventory.names import relay_names
from rdmaprov.inventory.resolve import ResolveError
from rdmaprov.probe.ansible_targets import Targets, as_relay
from rdmaprov.probe.errors import NodeError, NodeUnreachable
from rdmaprov.probe.probe import Probe
from rdmaprov.probe.session import Limits
from rdmaprov.probe.target import Target

RELAY = "fabric_relay"


class FleetTargets:
    """How nodes of a fleet are reached, each by its relays if it has some.

    Args:
        become_password: see Targets.
    """

    def __init__(self, fleet: Fleet, become_password: str = "") -> None:
        self._fleet = fleet
        self._targets = Targets(become_password)
        self._relay = cache(self._find_relay)

    def of(self, name: str) -> Target:
        """Return how a node is reached.

        Raises:
            NodeUnreachable: in a way that this connection cannot.
        """
        variables = self._fleet.variables(name)
        try:
            names = relay_names(variables.value(RELAY)) if RELAY in variables else ()
        except ResolveError as error:
            raise NodeUnreachable(f"{name}: {RELAY}: {error.message}", error.remedy) from error
        try:
            relays = tuple(map(self._relay, names))
        except NodeUnreachable as error:
            raise error.of_relay(name) from error
        return self._targets.of(name, variables, relays)

    def find(self, name: str) -> Target | NodeError:
        """Return how a node is reached, or why it cannot be."""
        try:
            return self.of(name)
        except NodeError as error:
            return error

    def as_variables(self, name: str, names: Iterable[str]) -> dict[str, Any]:
        """Return the variables with which Ansible reaches a node from its relay; see Targets."""
        return self._targets.as_variables(self._fleet.variables(name), names)

    def _find_relay(self, name: str) -> Target:
        if name not in self._fleet.hosts:
            raise NodeUnreachable(f"{name}: it is no host of the inventory", f"Correct {RELAY}")
        return as_relay(self._targets.of(name, self._fleet.variables(name)))


def open_probe(
    fleet: Fleet, limits: Limits, together: bool, become_password: str = "", acts: bool = False
) -> Probe:
    """Open a probe of the nodes of a fleet, in its order."""
    return Probe(fleet_targets(fleet, become_password), limits, together, acts=acts)


def fleet_targets(fleet: Fleet, become_password: str = "") -> dict[str, Target | NodeError]:
    """Return how each node of a fleet is reached, or why it cannot be; see FleetTargets."""
    targets = FleetTargets(fleet, become_password)
    return {node.name: targets.find(node.name) for node in fleet.nodes}


def find_target(fleet: Fleet) -> Callable[[str], Target | None]:
    """Return what returns how a node is reached, None if it cannot be."""
    targets = cache(lambda: FleetTargets(fleet))

    def find(name: str) -> Target | None:
        found = targets().find(name)
        return found if isinstance(found, Target) else None

    return find
