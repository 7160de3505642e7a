"""Options of the module fabric. Written by `make generate`; changes here are lost."""

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
  ipoib:
    description: 'Whether the rails'' IPoIB network devices are used. With false,
      their state, MTU and files are left alone and not judged: RDMA does not need
      them. Used on InfiniBand only.'
    type: bool
    default: true
  ipoib_mode:
    description: Mode of the rails' IPoIB network devices, running and at boot. connected
      allows an MTU of 65520, and ConnectX-4 and later lack it, unless OFED's ib_ipoib
      is loaded with ipoib_enhanced 0. keep leaves the mode alone. Used on InfiniBand
      with O(ipoib) only.
    type: str
    choices: [keep, datagram, connected]
    default: keep
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
"""
