"""A fleet's nodes, reached over rdmaprov's own connections."""

from collections.abc import Callable
from functools import cache

from rdmaprov.inventory import Fleet
from rdmaprov.probe.ansible_targets import Targets
from rdmaprov.probe.errors import NodeError
from rdmaprov.probe.probe import Probe
from rdmaprov.probe.session import Limits
from rdmaprov.probe.target import Target


def open_probe(fleet: Fleet, limits: Limits, together: bool, become_password: str = "") -> Probe:
    """Open a probe of the nodes of a fleet, in its order."""
    return Probe(fleet_targets(fleet, become_password), limits, together)


def fleet_targets(fleet: Fleet, become_password: str = "") -> dict[str, Target | NodeError]:
    """Return how each node of a fleet is reached, or why it cannot be; see Targets."""
    targets = Targets(become_password)
    return {node.name: _target(targets, fleet, node.name) for node in fleet.nodes}


def find_target(fleet: Fleet) -> Callable[[str], Target | None]:
    """Return what returns how a node is reached, None if it cannot be; made when first asked."""
    targets = cache(Targets)

    def find(name: str) -> Target | None:
        found = _target(targets(), fleet, name)
        return found if isinstance(found, Target) else None

    return find


def _target(targets: Targets, fleet: Fleet, name: str) -> Target | NodeError:
    try:
        return targets.of(name, fleet.variables(name))
    except NodeError as error:
        return error
