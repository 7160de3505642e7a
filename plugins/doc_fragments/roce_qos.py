"""Options of the module roce_qos. Written by `make generate`; changes here are lost."""

from __future__ import annotations


class ModuleDocFragment:
    """The options."""

    DOCUMENTATION = r"""
options:
  kind:
    description: Kind of the fabric. Settings for the other kind are ignored.
    type: str
    required: true
    choices: [roce, infiniband]
  nccl_traffic_class:
    description: NCCL_IB_TC, the traffic class of NCCL's data.
    type: int
    required: true
  lldpad:
    description: 'What to do if lldpad runs, which would overwrite the QoS settings:
      refuse the node, or mask the service.'
    type: str
    choices: [refuse, mask]
    default: refuse
  backend:
    description: 'Tool that sets QoS: dcb of iproute2, or mlnx_qos. With auto, mlnx_qos
      is used only for what dcb cannot set. keep changes nothing, where the image,
      a hypervisor or another tool sets QoS; validate still checks that it is the
      site''s.'
    type: str
    choices: [auto, dcb, mlnx_qos, keep]
    default: auto
  trust:
    description: Packet field that determines the priority. RoCE data is marked by
      DSCP; the tag of a VLAN rail can carry the priority instead, as nccl_ib_sl.
    type: str
    choices: [dscp, pcp]
    default: dscp
  dscp_priorities:
    description: DSCP to priority; other DSCPs keep the default, their upper three
      bits. The role sets all 64 entries.
    type: dict
    required: true
  pfc_priorities:
    description: Priorities with PFC. An empty list is lossy RoCE, which needs congestion
      control.
    type: list
    elements: int
    required: true
  global_pause:
    description: Ethernet global pause. Must be off if PFC is on.
    type: bool
    default: false
  priority_tc:
    description: Priority to traffic class; other priorities use traffic class 0.
    type: dict
    required: true
  tc_strict:
    description: Traffic classes with strict priority.
    type: list
    elements: int
    required: true
  tc_percent:
    description: Traffic class to its ETS bandwidth share in percent; the shares must
      add up to 100.
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
    description: Cable length, from which the driver calculates the PFC thresholds
      of the buffers in O(buffer_bytes) and O(priority_buffer). Without those it has
      no effect.
    type: int
    default: 7
  ecn_priorities:
    description: Priorities on which congestion control reacts to ECN marks. An empty
      list is RoCE with PFC alone.
    type: list
    elements: int
    required: true
  cnp_dscp:
    description: DSCP of congestion notification packets (CNPs), 0 to 63. Used on
      RoCE only.
    type: int
    default: 48
  cnp_priority:
    description: Priority of congestion notification packets (CNPs), 0 to 7. Must
      differ from fabric_lossless_priority. Used on RoCE only.
    type: int
    default: 6
  dcqcn:
    description: Congestion control parameter, by its name in the kernel's cc_params,
      such as rp_ai_rate, to its value.
    type: dict
    default: {}
  tos:
    description: Type of service of RoCE packets.
    type: int
    required: true
  rdma_cm_mode:
    description: RoCE version of rdma_cm connections.
    type: str
    choices: [RoCE v2, IB/RoCE v1]
    default: RoCE v2
  force_traffic_class:
    description: Set O(tos) on all packets, regardless of what the program requests.
      Needs OFED's driver.
    type: bool
    default: false
  dcbx:
    description: 'Who controls QoS: the host, or the firmware by DCBX with the switch.
      The firmware may override these settings.'
    type: str
    choices: [host, firmware]
    default: host
"""
