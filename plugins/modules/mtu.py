#!/usr/bin/python
"""The module rdmaprov.node.mtu."""

from __future__ import annotations

DOCUMENTATION = r"""
module: mtu
short_description: Set the MTU of the rails
description:
  - Sets the MTU of each rail's network device, now and in the configuration of the node's link
    manager. Refuses a rail whose RDMA MTU does not follow.
  - A device on the management path is changed only if O(guard_allowed_netdevs) lists it. The change
    is then reverted by a timer, unless a new connection confirms it.
version_added: 0.1.0
author: The rdmaprov contributors (@rdmaprov)
extends_documentation_fragment:
  - rdmaprov.node.options.mtu
  - rdmaprov.node.options.rails
  - rdmaprov.node.options.guard
  - rdmaprov.node.options.links
  - rdmaprov.node.plan
"""

EXAMPLES = r"""
- name: Carry RoCE packets of 4096 bytes
  rdmaprov.node.mtu:
    kind: roce
    rails: "{{ fabric_rails }}"
    mtu_bytes: 9000
    rdma_bytes: 4096
"""

RETURN = r"""
changes:
  description: Settings that differed from the description.
  returned: always
  type: list
  elements: dict
  sample: [{layer: running, device: ens1, setting: MTU, seen: "1500", wanted: "9000"}]
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
from ..module_utils.roles import mtu

if __name__ == "__main__":
    main(mtu)
