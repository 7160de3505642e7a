"""Options of the module nccl. Written by `make generate`; changes here are lost."""

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
  version:
    description: NCCL that the jobs use; decides which variables exist. Quoted, or
      YAML reads a number.
    type: str
    default: '2.30'
  ib_hca:
    description: RDMA devices to use, by exact name; empty for those of O(rails),
      found on the node.
    type: list
    elements: str
    default: []
  ib_tc:
    description: NCCL_IB_TC, the traffic class of NCCL's data; on RoCE its upper six
      bits are fabric_roce_dscp.
    type: int
    required: true
  ib_sl:
    description: NCCL_IB_SL, the service level of NCCL's data. Used on InfiniBand
      only.
    type: int
    default: 0
  ib_gid_index:
    description: NCCL_IB_GID_INDEX; -1 lets NCCL 2.21 and later choose by O(ib_address_family),
      which is right when an index moves.
    type: int
    default: -1
  ib_address_family:
    description: Family of the rails' addresses, by which NCCL chooses the GID.
    type: str
    choices: [ipv4, ipv6]
    required: true
  ib_address_range:
    description: 'NCCL_IB_ADDR_RANGE: the network, such as 198.18.0.0/15, that the
      GID must lie in; empty for any.'
    type: str
    default: ''
  socket_ifname:
    description: 'NCCL_SOCKET_IFNAME: network devices for NCCL''s first contact, as
      =eth0, eth or ^docker; empty lets NCCL choose. Never an RDMA name.'
    type: str
    default: ''
  cross_nic:
    description: 'NCCL_CROSS_NIC: 0 keeps a ring on one rail, 1 may cross, 2 tries
      to keep.'
    type: int
    choices: [0, 1, 2]
    required: true
  environment:
    description: Further NCCL_ variables to their values; those with a setting of
      their own are refused here.
    type: dict
    default: {}
  conf_existing:
    description: 'What to do with an nccl.conf that someone wrote by hand: replace
      it, or keep its other lines; a backup is made either way.'
    type: str
    choices: [replace, merge]
    default: replace
"""
