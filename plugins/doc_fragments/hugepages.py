"""Options of the module hugepages. Written by `make generate`; changes here are lost."""

from __future__ import annotations


class ModuleDocFragment:
    """The options."""

    DOCUMENTATION = r"""
options:
  count_2m:
    description: Number of 2 MiB hugepages on the node, spread evenly over its NUMA
      nodes. 0 asks for none; see O(unlisted).
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
  count_512m:
    description: Number of 512 MiB hugepages on the node, spread evenly over its NUMA
      nodes. For Arm kernels with memory pages of 64 KiB.
    type: int
    default: 0
  per_numa_node_512m:
    description: Number of 512 MiB hugepages on NUMA node 0, 1 and so on. Use this
      or O(count_512m).
    type: list
    elements: int
    default: []
  count_16g:
    description: Number of 16 GiB hugepages on the node, as O(count_1g). For Arm kernels
      with memory pages of 64 KiB.
    type: int
    default: 0
  per_numa_node_16g:
    description: Number of 16 GiB hugepages on NUMA node 0, 1 and so on. Use this
      or O(count_16g).
    type: list
    elements: int
    default: []
  allocation_1g:
    description: 'When to allocate 1 GiB and 16 GiB hugepages: boot uses the kernel
      command line and requires a reboot; runtime allocates now, which usually fails
      once memory is in use.'
    type: str
    choices: [boot, runtime]
    default: boot
  default_size:
    description: Default hugepage size of the kernel; keep leaves it unchanged. Any
      but the kernel's own (2M, or 512M with memory pages of 64 KiB) requires a reboot.
    type: str
    choices: [keep, 2M, 512M, 1G, 16G]
    default: keep
  unlisted:
    description: Hugepages of a size for which the site asks for none. keep leaves
      them to whoever allocated them, as well as hugepagesz and hugepages on the kernel
      command line unless the site asks for 1 GiB or 16 GiB pages. free frees them.
    type: str
    choices: [keep, free]
    default: keep
  left_bytes:
    description: Memory that must remain free of hugepages.
    type: bytes
    default: 1G
"""
