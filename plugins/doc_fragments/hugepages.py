"""Options of the module hugepages. Written by `make generate`; changes here are lost."""

from __future__ import annotations


class ModuleDocFragment:
    """The module's options."""

    DOCUMENTATION = r"""
options:
  count_2m:
    description: Hugepages of 2 MiB on the node, as many on each of its NUMA nodes,
      give or take one.
    type: int
    default: 0
  per_numa_node_2m:
    description: Hugepages of 2 MiB on NUMA node 0, 1 and so on; in place of O(count_2m).
    type: list
    elements: int
    default: []
  count_1g:
    description: Hugepages of 1 GiB on the node, as many on each of its NUMA nodes,
      give or take one; taken at boot, they are where the kernel finds room.
    type: int
    default: 0
  per_numa_node_1g:
    description: Hugepages of 1 GiB on NUMA node 0, 1 and so on; in place of O(count_1g).
    type: list
    elements: int
    default: []
  allocation_1g:
    description: 'When 1 GiB pages are taken: on the kernel command line, which needs
      a reboot, or at run time, which mostly fails on memory in use.'
    type: str
    choices: [boot, runtime]
    default: boot
  default_size:
    description: Size that plain hugepages have on this node; another than 2M is set
      at boot.
    type: str
    choices: [2M, 1G]
    default: 2M
  left_bytes:
    description: Memory that must be left beside the hugepages.
    type: bytes
    default: 1G
"""
