#!/usr/bin/python
"""The module rdmaprov.node.roce_qos."""

from __future__ import annotations

DOCUMENTATION = r"""
module: roce_qos
short_description: Set up QoS for lossless RoCE
description:
  - Sets trust, the whole DSCP map, PFC, global pause, ETS, receive buffers, congestion control and
    packet marking on each rail. Installs a program that sets them again at boot, when a driver is
    reloaded and when an RDMA device reappears.
  - On a bond or a VLAN, configures the ports below it.
  - A device on the management path is changed only if O(guard_allowed_netdevs) lists it. The change
    is then reverted by a timer, unless a new connection confirms it.
version_added: 0.1.0
author: The rdmaprov contributors (@rdmaprov)
extends_documentation_fragment:
  - rdmaprov.node.options.roce_qos
  - rdmaprov.node.options.rails
  - rdmaprov.node.options.guard
  - rdmaprov.node.plan
"""

EXAMPLES = r"""
- name: Have RoCE data alone on lossless priority 3
  rdmaprov.node.roce_qos:
    kind: roce
    rails: "{{ fabric_rails }}"
    dscp_priorities: {26: 3, 48: 6}
    pfc_priorities: [3]
    priority_tc: {3: 3, 6: 6}
    tc_strict: [6]
    tc_percent: {0: 50, 3: 50}
    ecn_priorities: [3]
    cnp_dscp: 48
    cnp_priority: 6
    tos: 106
    nccl_traffic_class: 106
"""

RETURN = r"""
changes:
  description: Settings that differed from the description.
  returned: always
  type: list
  elements: dict
  sample: [{layer: running, device: ens1, setting: PFC, seen: "off", wanted: "3"}]
notes:
  description: Settings that are not possible on this node, and why.
  returned: always
  type: list
  elements: str
  sample: ["ens1: it has no DCB: it is a virtual function, whose port belongs to the physical one"]
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
from ..module_utils.roles import roce_qos

if __name__ == "__main__":
    main(roce_qos)
