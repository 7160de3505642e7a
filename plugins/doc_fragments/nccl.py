"""Options of the module nccl. Written by `make generate`; changes here are lost."""

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
  version:
    description: NCCL version of the jobs. It decides which variables exist. Quote
      it, or YAML reads a number.
    type: str
    default: '2.30'
  ib_hca:
    description: NCCL_IB_HCA, the RDMA devices for NCCL, by exact name. Empty uses
      the devices of O(rails), as found on the node.
    type: list
    elements: str
    default: []
  ib_tc:
    description: NCCL_IB_TC, the traffic class of NCCL's data.
    type: int
    required: true
  ib_sl:
    description: NCCL_IB_SL, the service level of NCCL's data. On RoCE it is the priority
      (PCP) in the tag of VLAN rails.
    type: int
    required: true
  ib_pkey:
    description: Partition key of NCCL's data, in quotes, such as "0x8001". NCCL_IB_PKEY
      is its index in the tables of the node's ports, where the role finds it. Used
      on InfiniBand only.
    type: str
    required: true
  sharp:
    description: Whether the switches are to reduce (SHARP). wanted has NCCL use CollNet,
      and rdmaprov accept fails if it does not; off judges nothing. It needs an aggregation
      manager beside the subnet manager, and NCCL's SHARP plugin in the jobs. Used
      on InfiniBand only.
    type: str
    choices: ['off', wanted]
    default: 'off'
  adaptive_routing:
    description: Whether NCCL's transfers are to allow adaptive routing, by which
      switches choose a port for each packet. on and off set NCCL_IB_ADAPTIVE_ROUTING;
      auto leaves it to NCCL, which allows it on InfiniBand alone. The subnet manager
      turns it on for service levels, of which fabric_service_level must be one.
    type: str
    choices: [auto, 'on', 'off']
    default: auto
  ib_gid_index:
    description: NCCL_IB_GID_INDEX. With -1, NCCL 2.21 and later choose the GID by
      O(ib_address_family), which still works after the index changes.
    type: int
    default: -1
  ib_address_family:
    description: NCCL_IB_ADDR_FAMILY, the address family by which NCCL chooses the
      GID.
    type: str
    choices: [ipv4, ipv6]
    required: true
  ib_address_range:
    description: NCCL_IB_ADDR_RANGE, the network that contains the GID, such as 198.18.0.0/15;
      empty allows any.
    type: str
    default: ''
  socket_ifname:
    description: NCCL_SOCKET_IFNAME, the network devices for NCCL's bootstrap, such
      as =eth0, eth or ^docker. Empty lets NCCL choose. RDMA device names are not
      valid.
    type: str
    default: ''
  cross_nic:
    description: 'NCCL_CROSS_NIC: 0 keeps each ring on one rail, 1 allows it to cross
      rails, 2 avoids crossing if possible.'
    type: int
    choices: [0, 1, 2]
    required: true
  tuner_plugin:
    description: NCCL_TUNER_PLUGIN, the name or absolute path of a tuner plugin's
      library, such as example for libnccl-tuner-example.so. Empty sets none. rdmaprov
      does not install it.
    type: str
    default: ''
  tuner_config:
    description: Lines of the file of NCCL's example tuner plugin, as rdmaprov tune
      prints them. Written to /etc/nccl_tuner.conf, for NCCL_TUNER_CONFIG_FILE. Empty
      removes that file.
    type: str
    default: ''
  environment:
    description: 'More NCCL_ variables: name to value. Variables that have their own
      setting are refused.'
    type: dict
    default: {}
  conf_existing:
    description: 'What to do with a hand-written nccl.conf: replace it, or merge its
      other lines. It is backed up in both cases.'
    type: str
    choices: [replace, merge]
    default: replace
"""
