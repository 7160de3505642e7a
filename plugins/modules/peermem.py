#!/usr/bin/python
"""The module rdmaprov.node.peermem."""

from __future__ import annotations

DOCUMENTATION = r"""
module: peermem
short_description: Let the NICs reach GPU memory
description:
  - Has the module nvidia_peermem loaded, now and at boot, and registered with the RDMA drivers; or
    refuses a node that lacks what dma-buf needs.
  - Says why the module does not load, and what to do.
version_added: 0.1.0
author: The rdmaprov contributors (@rdmaprov)
extends_documentation_fragment:
  - rdmaprov.node.peermem
  - rdmaprov.node.plan
"""

EXAMPLES = r"""
- name: Use what the node has
  rdmaprov.node.peermem:
    rails: "{{ fabric_rails }}"
    mode: auto
"""

RETURN = r"""
changes:
  description: What was not as described.
  returned: always
  type: list
  elements: dict
  sample:
    - layer: running
      device: nvidia_peermem
      setting: module
      seen: not loaded
      wanted: loaded
notes:
  description: What was decided, and why.
  returned: always
  type: list
  elements: str
  sample: ["dmabuf: the node has all it needs"]
reboot:
  description: Why a reboot is due, such as RDMA drivers that were replaced and still run.
  returned: always
  type: list
  elements: str
"""

from ..module_utils.converge import main
from ..module_utils.roles import peermem

if __name__ == "__main__":
    main(peermem)
