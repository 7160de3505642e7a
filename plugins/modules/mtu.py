#!/usr/bin/python
"""The module rdmaprov.node.mtu."""

from __future__ import annotations

DOCUMENTATION = r"""
module: mtu
short_description: Set the MTU of a node's rails
description:
  - Sets the MTU of each rail's network device, now and at boot with what manages the node's links,
    and refuses a rail whose RDMA MTU does not follow.
  - A device that the way to the node uses is only touched if I(guard_allowed_netdevs) names it,
    and then with a timer that takes the change back unless a new connection confirms it.
version_added: 0.1.0
author: The rdmaprov contributors (@rdmaprov)
extends_documentation_fragment:
  - rdmaprov.node.mtu
  - rdmaprov.node.plan
"""

EXAMPLES = r"""
- name: Carry RoCE packets of 4096 bytes
  rdmaprov.node.mtu:
    rails: "{{ fabric_rails }}"
    mtu_bytes: 9000
    rdma_bytes: 4096
"""

RETURN = r"""
changes:
  description: What was not as described.
  returned: always
  type: list
  elements: dict
  sample: [{layer: running, device: ens1, setting: MTU, seen: "1500", wanted: "9000"}]
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
from ..module_utils.roles import mtu

if __name__ == "__main__":
    main(mtu)
