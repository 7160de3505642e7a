#!/usr/bin/python
"""The module rdmaprov.node.hugepages."""

from __future__ import annotations

DOCUMENTATION = r"""
module: hugepages
short_description: Reserve hugepages on each NUMA node, now and at boot
description:
  - Reserves hugepages of 2 MiB, 512 MiB, 1 GiB and 16 GiB, where the kernel has them, and reads
    back what it allocated. If it allocated fewer, the module compacts memory and drops caches, and
    then fails if there are still too few.
  - A systemd unit reserves them at boot; 1 GiB and 16 GiB pages are on the kernel command line
    unless O(allocation_1g=runtime).
  - Refuses more pages than fit into memory, fewer than processes use, and a node on which another
    file sets a different number at boot.
version_added: 0.1.0
author: The rdmaprov contributors (@rdmaprov)
extends_documentation_fragment:
  - rdmaprov.node.options.hugepages
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
  description: Settings that differed from the description.
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
  description: Reasons that require a reboot.
  returned: always
  type: list
  elements: str
"""

from ..module_utils.converge import main
from ..module_utils.roles import hugepages

if __name__ == "__main__":
    main(hugepages)
