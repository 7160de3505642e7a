#!/usr/bin/python
"""The module rdmaprov.node.fabric."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric
short_description: Find the rails of a node and address them
description:
  - Finds each rail, and refuses a node that does not match its description before anything is
    written.
  - Brings each rail up with its address, a routing table and ARP settings of its own, now and in
    the configuration of the node's link manager.
  - Moves a rail's address back if it is on another rail. Refuses an address on a rail that the site
    does not list.
  - A device on the management path is changed only if O(guard_allowed_netdevs) lists it. The change
    is then reverted by a timer, unless a new connection confirms it.
version_added: 0.1.0
author: The rdmaprov contributors (@rdmaprov)
extends_documentation_fragment:
  - rdmaprov.node.options.fabric
  - rdmaprov.node.options.rails
  - rdmaprov.node.options.guard
  - rdmaprov.node.options.links
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
  description: Settings that differed from the description.
  returned: always
  type: list
  elements: dict
  sample: [{layer: running, device: ens1, setting: address, seen: none, wanted: 198.18.0.1/24}]
reboot:
  description: Reasons that require a reboot.
  returned: always
  type: list
  elements: str
confirm:
  description: Timer that reverts the change unless it is confirmed.
  returned: after a change to the management path
  type: str
"""

from ..module_utils.converge import main
from ..module_utils.roles import fabric

if __name__ == "__main__":
    main(fabric)
