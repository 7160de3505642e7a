"""Options of several modules. Written by `make generate`; changes here are lost."""

from __future__ import annotations


class ModuleDocFragment:
    """The options."""

    DOCUMENTATION = r"""
options:
  rails:
    description: The rails of the node, in order. Rail i of all nodes forms one network
      plane, and so does storage rail i. Each rail needs a netdev or a pci; on InfiniBand,
      its rdma alone will do.
    type: list
    elements: dict
    required: true
    suboptions:
      netdev:
        description: Network device of the rail, as shown by `ip link`.
        type: str
      pci:
        description: PCI address of the rail's function, such as 0000:18:00.0. Unlike
          a device name, it does not change after an upgrade.
        type: str
      address:
        description: Address with prefix length, such as 198.18.0.1/24 or fd00::1/64.
        type: str
      gateway:
        description: Router of the rail's subnet. With a gateway, rail i can have
          a subnet of its own in each rack; without one, all nodes share one subnet
          on rail i. A link-local router, such as fe80::1 or 169.254.0.1, and any
          router of a /32 or /128 address are reached over the link itself.
        type: str
      gpus:
        description: Indexes of the GPUs that use this rail. GPUs can share several
          rails; each of these then lists all of them.
        type: list
        elements: int
      use:
        description: What the rail is for. Storage rails come last; they are configured
          and validated as the others are, but NCCL, the bandwidth floor and the acceptance
          test leave them out.
        type: str
        choices: [compute, storage]
        default: compute
      link_gbps:
        description: Line rate of this rail, in Gb/s, if it differs from fabric_link_gbps.
        type: int
        choices: [10, 25, 40, 50, 56, 100, 200, 400, 800]
      vlan:
        description: The network device is a VLAN, whose tag carries the priority
          (PCP).
        type: bool
        default: false
      rdma:
        description: RDMA device of the rail, such as mlx5_0, as InfiniBand's node
          descriptions have it. rdmaprov subnet finds the rail's port by it. Without
          it, rail i has the i-th of the device names that most nodes have in the
          subnet. A rail with neither netdev nor pci is found by it on the node, too;
          prefer pci, as the kernel counts mlx5_0, mlx5_1, … anew when a card is missing.
          Used on InfiniBand only.
        type: str
      leaf:
        description: Leaf switch of the rail, by its node description on InfiniBand
          and by the name that it announces by LLDP on RoCE, such as leaf01, or a
          template of fabric_leaf. rdmaprov subnet and rdmaprov validate name a rail
          that is on another one. Without it, the nodes with one fabric_leaf must
          have the rail on one switch.
        type: str
      switch_port:
        description: Port of the leaf, by the ID or the description that the switch
          announces by LLDP, such as swp1 or Ethernet1/1; of a bond, that of one of
          its ports. rdmaprov validate names a rail that is on another one. Needs
          leaf. Used on RoCE only.
        type: str
      pkeys:
        description: Partition keys of the rail's port, if they differ from fabric_partition_keys.
          Used on InfiniBand only.
        type: list
        elements: str
      ipoib_pkey:
        description: Partition key, in quotes, such as "0x8002", with which the rail's
          network device is the IPoIB interface of that partition. netdev, pci or
          rdma names the port, and the role makes PARENT.8002 over the port's own
          IPoIB device, now and at boot. Used on InfiniBand with fabric_ipoib only.
        type: str
      subnet_prefix:
        description: Subnet prefix of the rail's subnet, in quotes, as opensm's subnet_prefix
          has it, such as "0xfec0000000000001". Without it, the rail must have the
          same one on all nodes. Used on InfiniBand only.
        type: str
"""
