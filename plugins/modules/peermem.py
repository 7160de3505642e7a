#!/usr/bin/python
"""The module rdmaprov.node.peermem."""

from __future__ import annotations

DOCUMENTATION = r"""
module: peermem
short_description: Set up GPUDirect RDMA
description:
  - Loads nvidia_peermem, now and at boot, and verifies that it is registered with the RDMA drivers.
    In dma-buf mode, refuses a node that does not support it.
  - If the module does not load, reports why and what to do.
  - Turns on the persistence mode of GPUs, now and at boot, if the site asks for it.
version_added: 0.1.0
author: The rdmaprov contributors (@rdmaprov)
extends_documentation_fragment:
  - rdmaprov.node.options.peermem
  - rdmaprov.node.options.rails
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
  description: Settings that differed from the description.
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
  description: What the module chose, and why.
  returned: always
  type: list
  elements: str
  sample: ["dmabuf: the node supports it"]
reboot:
  description: Reasons that require a reboot, such as loaded RDMA drivers that were replaced.
  returned: always
  type: list
  elements: str
"""

from ..module_utils.converge import main
from ..module_utils.roles import peermem

if __name__ == "__main__":
    main(peermem)
