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
  - rdmaprov.node.rails
  - rdmaprov.node.guard
  - rdmaprov.node.plan
options:
  kind:
    description: Kind of the fabric; on InfiniBand there is nothing to do.
    type: str
    choices: [roce, infiniband]
    required: true
  nccl_traffic_class:
    description: Traffic class that NCCL is told to use, with which a forced one must agree.
    type: int
    required: true
  lldpad:
    description: >-
      What to do when lldpad runs, which would overwrite the QoS: refuse the node, or mask the
      service.
    type: str
    choices: [refuse, mask]
    default: refuse
  backend:
    description: >-
      Tool that sets the QoS: iproute2's dcb, or mlnx_qos; auto takes mlnx_qos only for what
      dcb cannot set.
    type: str
    choices: [auto, dcb, mlnx_qos]
    default: auto
  trust:
    description: What a packet's priority is read from; RoCE data is marked by DSCP.
    type: str
    choices: [dscp, pcp]
    default: dscp
  dscp_priorities:
    description: >-
      DSCP to priority, where it is not the DSCP's upper three bits. The role writes all 64.
    type: dict
    default: {}
  pfc_priorities:
    description: >-
      Priorities with PFC: the lossless one and no other.
    type: list
    elements: int
    required: true
  global_pause:
    description: Ethernet's global pause; must be off where PFC is on.
    type: bool
    default: false
  priority_tc:
    description: Priority to traffic class; a priority that is not named is in traffic class 0.
    type: dict
    required: true
  tc_strict:
    description: Traffic classes served before all others.
    type: list
    elements: int
    default: []
  tc_percent:
    description: >-
      Traffic class to its share of the bandwidth by ETS, in percent; the shares sum to 100.
    type: dict
    required: true
  buffer_bytes:
    description: Receive buffer to its size; empty leaves the sizes to the firmware.
    type: dict
    default: {}
  priority_buffer:
    description: Priority to receive buffer; empty leaves the map to the firmware.
    type: dict
    default: {}
  cable_length_m:
    description: Length of the cables, from which the firmware derives when to send a pause.
    type: int
    default: 7
  ecn_priorities:
    description: Priorities on which congestion control reacts to ECN marks.
    type: list
    elements: int
    required: true
  cnp_dscp:
    description: DSCP of congestion notification packets.
    type: int
    required: true
  cnp_priority:
    description: Priority of congestion notification packets.
    type: int
    required: true
  dcqcn:
    description: >-
      Congestion control parameter, by its name in the kernel's cc_params, such as rp_ai_rate,
      to its value.
    type: dict
    default: {}
  tos:
    description: >-
      Type of service of RoCE packets: the DSCP, and 2 to say that ECN is understood.
    type: int
    required: true
  rdma_cm_mode:
    description: RoCE version of connections made by rdma_cm.
    type: str
    choices: [RoCE v2, IB/RoCE v1]
    default: RoCE v2
  force_traffic_class:
    description: >-
      Make the driver put I(tos) into every packet, whatever the program asked for. Needs
      OFED's driver.
    type: bool
    default: false
  dcbx:
    description: >-
      Who decides on QoS: the host, or the firmware by agreement with the switch, which may
      then undo what is set here.
    type: str
    choices: [host, firmware]
    default: host
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
