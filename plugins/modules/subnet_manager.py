#!/usr/bin/python
"""The module rdmaprov.node.subnet_manager."""

from __future__ import annotations

DOCUMENTATION = r"""
module: subnet_manager
short_description: Run an InfiniBand subnet manager
description:
  - Installs, configures, enables and starts opensm on a port of each subnet, if the node is one of
    the hosts; ends its own manager on any other node.
  - Masks the units of opensm's packages, one of which starts a manager on every port.
  - Reads who manages the subnet before it starts a manager, and refuses if that is neither one of
    the hosts nor allowed.
version_added: 0.1.0
author: The rdmaprov contributors (@rdmaprov)
extends_documentation_fragment:
  - rdmaprov.node.options.subnet_manager
  - rdmaprov.node.options.rails
  - rdmaprov.node.plan
"""

EXAMPLES = r"""
- name: Manage the subnet of rail 0 from two nodes
  rdmaprov.node.subnet_manager:
    hosts: [ib01, ib02]
    node: "{{ inventory_hostname }}"
    rails:
      - {pci: "0000:18:00.0"}
    subnet_rails: [0]
    engines: [ftree, updn]
"""

RETURN = r"""
changes:
  description: Settings that differed from the description.
  returned: always
  type: list
  elements: dict
  sample:
    - layer: running
      device: rdmaprov-opensm-rail0.service
      setting: subnet manager
      seen: not running
      wanted: runs as configured
interrupts:
  description: What the changes interrupt, and for how long.
  returned: always
  type: list
  elements: str
reboot:
  description: Reasons that require a reboot.
  returned: always
  type: list
  elements: str
"""

from ..module_utils.converge import main
from ..module_utils.roles import subnet_manager

if __name__ == "__main__":
    main(subnet_manager)
