"""Options of the module mtu. Written by `make generate`; changes here are lost."""

from __future__ import annotations


class ModuleDocFragment:
    """The module's options."""

    DOCUMENTATION = r"""
options:
  rails:
    description: The rails of the node, in order. Rail i of all nodes forms one network
      plane. Each rail needs a netdev or a pci.
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
          on rail i.
        type: str
      gpus:
        description: Indexes of the GPUs that use this rail.
        type: list
        elements: int
  mtu_bytes:
    description: MTU of the rails' network devices. RoCE needs at least 4192 for an
      RDMA MTU of 4096; 2044 is the IPoIB MTU of a subnet manager's default partition.
    type: int
    required: true
  rdma_bytes:
    description: RDMA MTU required on the ports.
    type: int
    choices: [256, 512, 1024, 2048, 4096]
    required: true
  link_manager:
    description: Service that configures the network devices of the node; auto detects
      it for each device.
    type: str
    choices: [auto, systemd-networkd, NetworkManager, ifupdown, netplan]
    default: auto
  guard_allowed_netdevs:
    description: Network devices that may be changed although the management path,
      the default gateway or a network filesystem uses them.
    type: list
    elements: str
    default: []
  guard_revert_s:
    description: Seconds until a change to the management path is reverted, unless
      a new connection confirms it.
    type: int
    default: 60
"""
