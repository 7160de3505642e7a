"""Options of the module hugepages. Written by `make generate`; changes here are lost."""

from __future__ import annotations


class ModuleDocFragment:
    """The options."""

    DOCUMENTATION = r"""
options:
  count_2m:
    description: Number of 2 MiB hugepages on the node, spread evenly over its NUMA
      nodes.
    type: int
    default: 0
  per_numa_node_2m:
    description: Number of 2 MiB hugepages on NUMA node 0, 1 and so on. Use this or
      O(count_2m).
    type: list
    elements: int
    default: []
  count_1g:
    description: Number of 1 GiB hugepages on the node, spread evenly over its NUMA
      nodes. At boot, the kernel decides where they are if a NUMA node lacks room.
    type: int
    default: 0
  per_numa_node_1g:
    description: Number of 1 GiB hugepages on NUMA node 0, 1 and so on. Use this or
      O(count_1g).
    type: list
    elements: int
    default: []
  allocation_1g:
    description: 'When to allocate 1 GiB hugepages: boot uses the kernel command line
      and requires a reboot; runtime allocates now, which usually fails once memory
      is in use.'
    type: str
    choices: [boot, runtime]
    default: boot
  default_size:
    description: Default hugepage size of the kernel. 1G requires a reboot.
    type: str
    choices: [2M, 1G]
    default: 2M
  left_bytes:
    description: Memory that must remain free of hugepages.
    type: bytes
    default: 1G
"""
