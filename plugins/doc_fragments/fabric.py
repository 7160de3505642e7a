"""Options of the module fabric. Written by `make generate`; changes here are lost."""

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
  memory_bytes:
    description: Memory of the node, such as 2T; when it is known, a node with less
      is refused (beyond what its kernel keeps), and hugepages are checked against
      it.
    type: bytes
  numa_nodes:
    description: NUMA nodes of the node; when it is known, a node with fewer is refused,
      and lists that count by NUMA node are checked against it.
    type: int
  gpu_count:
    description: GPUs in the node; each must then be named by a rail, and a node with
      another number is refused.
    type: int
    default: 0
  source_routing:
    description: 'Answer on the rail that was asked: one routing table for each rail,
      and ARP only for a rail''s own address.'
    type: bool
    default: true
  routing_table_base:
    description: Routing table of rail 0; rail i has this number plus i.
    type: int
    default: 1000
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
