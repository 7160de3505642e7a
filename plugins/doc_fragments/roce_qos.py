"""Options of the module roce_qos. Written by `make generate`; changes here are lost."""

from __future__ import annotations


class ModuleDocFragment:
    """The module's options."""

    DOCUMENTATION = r"""
options:
  kind:
    description: What the rails are; decides which of the other settings apply.
    type: str
    required: true
    choices: [roce, infiniband]
  rails:
    description: 'The node''s rails in their order: rail i of every node is one network
      plane. Each has a netdev or a pci.'
    type: list
    elements: dict
    required: true
    suboptions:
      netdev:
        description: Name of the rail's network device, as `ip link` shows it.
        type: str
      pci:
        description: PCI address of the rail's function, such as 0000:18:00.0; stays
          when names change.
        type: str
      address:
        description: Address with prefix length, such as 198.18.0.1/24 or fd00::1/64.
        type: str
      gateway:
        description: Router of the rail's subnet. With it, rail i may have one subnet
          for each rack; without it, one for the fleet.
        type: str
      gpus:
        description: GPUs, by index, that use this rail.
        type: list
        elements: int
  nccl_traffic_class:
    description: NCCL_IB_TC, the traffic class of NCCL's data; on RoCE its upper six
      bits are fabric_roce_dscp.
    type: int
    required: true
  lldpad:
    description: 'What to do when lldpad runs, which would overwrite the QoS: refuse
      the node, or mask the service.'
    type: str
    choices: [refuse, mask]
    default: refuse
  backend:
    description: 'Tool that sets the QoS: iproute2''s dcb, or mlnx_qos; auto takes
      mlnx_qos only for what dcb cannot set.'
    type: str
    choices: [auto, dcb, mlnx_qos]
    default: auto
  trust:
    description: What a packet's priority is read from; RoCE data is marked by DSCP.
    type: str
    choices: [dscp, pcp]
    default: dscp
  dscp_priorities:
    description: DSCP to priority, where it is not the DSCP's upper three bits. The
      role writes all 64.
    type: dict
    required: true
  pfc_priorities:
    description: 'Priorities with PFC: the lossless one and no other.'
    type: list
    elements: int
    required: true
  global_pause:
    description: Ethernet's global pause; must be off where PFC is on.
    type: bool
    default: false
  priority_tc:
    description: Priority to traffic class; a priority that is not named is in traffic
      class 0.
    type: dict
    required: true
  tc_strict:
    description: Traffic classes served before all others.
    type: list
    elements: int
    required: true
  tc_percent:
    description: Traffic class to its share of the bandwidth by ETS, in percent; the
      shares sum to 100.
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
    description: Length of the cables, from which the firmware derives when to send
      a pause.
    type: int
    default: 7
  ecn_priorities:
    description: Priorities on which congestion control reacts to ECN marks.
    type: list
    elements: int
    required: true
  cnp_dscp:
    description: DSCP of congestion notification packets, 0 to 63. Used on RoCE only.
    type: int
    default: 48
  cnp_priority:
    description: Priority of congestion notification packets, 0 to 7; never the lossless
      one. Used on RoCE only.
    type: int
    default: 6
  dcqcn:
    description: Congestion control parameter, by its name in the kernel's cc_params,
      such as rp_ai_rate, to its value.
    type: dict
    default: {}
  tos:
    description: 'Type of service of RoCE packets: the DSCP, and 2 to say that ECN
      is understood.'
    type: int
    required: true
  rdma_cm_mode:
    description: RoCE version of connections made by rdma_cm.
    type: str
    choices: [RoCE v2, IB/RoCE v1]
    default: RoCE v2
  force_traffic_class:
    description: Make the driver put O(tos) into every packet, whatever the program
      asked for. Needs OFED's driver.
    type: bool
    default: false
  dcbx:
    description: 'Who decides on QoS: the host, or the firmware by agreement with
      the switch, which may then undo what is set here.'
    type: str
    choices: [host, firmware]
    default: host
  guard_allowed_netdevs:
    description: Network devices that may be changed although the way to the node,
      its default gateway or a network filesystem uses them.
    type: list
    elements: str
    default: []
  guard_revert_s:
    description: Seconds after which a change to such a device is taken back, unless
      a new connection has confirmed it.
    type: int
    default: 60
"""
