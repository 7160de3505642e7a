"""Options of the module fabric. Written by `make generate`; changes here are lost."""

from __future__ import annotations


class ModuleDocFragment:
    """The module's options."""

    DOCUMENTATION = r"""
options:
  kind:
    description: Kind of the fabric. Settings for the other kind are ignored.
    type: str
    required: true
    choices: [roce, infiniband]
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
  memory_bytes:
    description: Memory of the node, such as 2T. If set, a node with less is refused
      (apart from what the kernel reserves), and hugepages are checked against it.
    type: bytes
  numa_nodes:
    description: Number of NUMA nodes. If set, a node with fewer is refused, and lists
      with one entry per NUMA node are checked against it.
    type: int
  gpu_count:
    description: Number of GPUs in the node. A node with another number is refused,
      and each GPU must belong to a rail.
    type: int
    default: 0
  source_routing:
    description: Set up one routing table for each rail, so that replies leave on
      the rail that received the request. ARP then answers only for the rail's own
      address.
    type: bool
    default: true
  routing_table_base:
    description: Routing table number of rail 0. Rail i uses this number plus i.
    type: int
    default: 1000
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
