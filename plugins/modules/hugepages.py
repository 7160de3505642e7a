#!/usr/bin/python
"""The module rdmaprov.node.hugepages."""

from __future__ import annotations

DOCUMENTATION = r"""
module: hugepages
short_description: Reserve hugepages, for each NUMA node, now and at boot
description:
  - Has the kernel keep hugepages of 2 MiB and 1 GiB, and reads back what it really gave. Where it
    gives fewer, memory is compacted and then freed of caches; fewer are an error in the end.
  - At boot they are taken by a systemd unit, those of 1 GiB by the kernel's command line unless
    I(allocation_1g=runtime).
  - Refuses more than the memory holds, fewer than processes use, and a node on which something else
    sets another number at boot.
version_added: 0.1.0
author: The rdmaprov contributors (@rdmaprov)
extends_documentation_fragment: rdmaprov.node.plan
options:
  count_2m:
    description: Pages of 2 MiB, as many on each NUMA node, give or take one.
    type: int
    default: 0
  per_numa_node_2m:
    description: Pages of 2 MiB on NUMA node 0, 1 and so on, in place of I(count_2m).
    type: list
    elements: int
    default: []
  count_1g:
    description: Pages of 1 GiB, as many on each NUMA node, give or take one.
    type: int
    default: 0
  per_numa_node_1g:
    description: Pages of 1 GiB on NUMA node 0, 1 and so on, in place of I(count_1g).
    type: list
    elements: int
    default: []
  allocation_1g:
    description: When pages of 1 GiB are taken; V(boot) publishes a reboot.
    type: str
    choices: [boot, runtime]
    default: boot
  default_size:
    description: Size of hugepages for programs that name none; V(1G) is set at boot.
    type: str
    choices: [2M, 1G]
    default: 2M
  left_bytes:
    description: Memory that must be left beside the hugepages.
    type: bytes
    default: 1G
"""

EXAMPLES = r"""
- name: Keep 2 GiB of small hugepages on each of two NUMA nodes
  rdmaprov.node.hugepages:
    per_numa_node_2m: [1024, 1024]

- name: Keep 16 large ones, from the next boot on
  rdmaprov.node.hugepages:
    count_1g: 16
"""

RETURN = r"""
changes:
  description: What was not as described.
  returned: always
  type: list
  elements: dict
  sample:
    - layer: running
      device: NUMA node 0
      setting: 2 MiB hugepages
      seen: "0"
      wanted: "1024"
reboot:
  description: Why a reboot is due.
  returned: always
  type: list
  elements: str
"""

from ..module_utils.converge import main
from ..module_utils.roles import hugepages

if __name__ == "__main__":
    main(hugepages)
