#!/usr/bin/python
"""The module rdmaprov.node.roce_qos."""

from __future__ import annotations

DOCUMENTATION = r"""
module: roce_qos
short_description: Make RoCE lossless on a node
description:
  - Sets trust, the whole DSCP map, PFC, global pause, ETS, receive buffers, congestion control and
    marking of each rail, and installs what sets them again at boot, when a driver is loaded again
    and when an RDMA device is made again.
  - A rail that is a bond or a VLAN has these on the ports below it.
  - A device that the way to the node uses is only touched if I(guard_allowed_netdevs) names it,
    and then with a timer that takes the change back unless a new connection confirms it.
version_added: 0.1.0
author: The rdmaprov contributors (@rdmaprov)
extends_documentation_fragment:
  - rdmaprov.node.roce_qos
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
  description: What was not as described.
  returned: always
  type: list
  elements: dict
  sample: [{layer: running, device: ens1, setting: PFC, seen: "off", wanted: "3"}]
notes:
  description: What could not be set on this node, and why.
  returned: always
  type: list
  elements: str
  sample: ["ens1: it has no DCB: it is a virtual function, whose port belongs to the physical one"]
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
from ..module_utils.roles import roce_qos

if __name__ == "__main__":
    main(roce_qos)
