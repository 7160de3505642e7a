#!/usr/bin/python
"""The module rdmaprov.node.fabric."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric
short_description: Find a node's rails and give them addresses
description:
  - Finds each rail, and refuses a node that does not fit before anything is written.
  - Has each rail up with its address, with ARP answered by the device that was asked and a routing
    table of its own, now and at boot with what manages the node's links.
  - Takes another rail's address from a rail; refuses one that the site does not name.
  - A device that the way to the node uses is only touched if I(guard_allowed_netdevs) names it,
    and then with a timer that takes the change back unless a new connection confirms it.
version_added: 0.1.0
author: The rdmaprov contributors (@rdmaprov)
extends_documentation_fragment:
  - rdmaprov.node.fabric
  - rdmaprov.node.plan
"""

EXAMPLES = r"""
- name: Address two rails
  rdmaprov.node.fabric:
    kind: roce
    rails:
      - {pci: "0000:18:00.0", address: 198.18.0.1/24}
      - {pci: "0000:3b:00.0", address: 198.18.1.1/24}
"""

RETURN = r"""
changes:
  description: What was not as described.
  returned: always
  type: list
  elements: dict
  sample: [{layer: running, device: ens1, setting: address, seen: none, wanted: 198.18.0.1/24}]
reboot:
  description: Why a reboot is due.
  returned: always
  type: list
  elements: str
confirm:
  description: The timer that takes the change back unless it is confirmed.
  returned: after a change on the way to the node
  type: str
"""

from ..module_utils.converge import main
from ..module_utils.roles import fabric

if __name__ == "__main__":
    main(fabric)
