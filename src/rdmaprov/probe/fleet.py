"""A fleet's nodes, reached over rdmaprov's own connections."""

from __future__ import annotations

from rdmaprov.inventory import Fleet
from rdmaprov.probe.errors import NodeError
from rdmaprov.probe.probe import Probe
from rdmaprov.probe.session import Limits
from rdmaprov.probe.target import Target, Targets


def open_probe(fleet: Fleet, limits: Limits, together: bool, become_password: str = "") -> Probe:
    """Open a probe of the nodes of a fleet, in its order.

    Args:
        fleet: the site's.
        limits: of time and number.
        together: see Probe.
        become_password: see Targets.

    """
    targets = Targets(become_password)
    reached = {node.name: _target(targets, fleet, node.name) for node in fleet.nodes}
    return Probe(reached, limits, together)


def _target(targets: Targets, fleet: Fleet, name: str) -> Target | NodeError:
    try:
        return targets.of(name, fleet.variables(name))
    except NodeError as error:
        return error
