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
extends_documentation_fragment:
  - rdmaprov.node.hugepages
  - rdmaprov.node.plan
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
