"""Options of the module mtu. Written by `make generate`; changes here are lost."""

from __future__ import annotations


class ModuleDocFragment:
    """The module's options."""

    DOCUMENTATION = r"""
options:
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
  mtu_bytes:
    description: MTU of the rails' network devices. RoCE needs 4192 for its largest
      MTU of 4096; 2044 is IPoIB's on a subnet manager's default partition.
    type: int
    required: true
  rdma_bytes:
    description: 'RDMA MTU that the ports must then have: on RoCE the largest that
      leaves 96 bytes for headers, on InfiniBand what the subnet manager sets.'
    type: int
    choices: [256, 512, 1024, 2048, 4096]
    required: true
  link_manager:
    description: What configures the machine's links; auto finds it.
    type: str
    choices: [auto, systemd-networkd, NetworkManager, ifupdown, netplan]
    default: auto
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
