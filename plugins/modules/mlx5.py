#!/usr/bin/python
"""The module rdmaprov.node.mlx5."""

from __future__ import annotations

DOCUMENTATION = r"""
module: mlx5
short_description: Set parameters of the RDMA kernel modules and firmware settings of the NICs
description:
  - Sets parameters of kernel modules in C(/etc/modprobe.d/rdmaprov.conf), rebuilds each initramfs
    that contains one of the modules, and sets at once what can be changed while a module is loaded.
  - Refuses, before anything is written, a parameter that the installed module does not have, a
    value of the wrong type, and another file that overrides the setting.
  - Parameters that are read only at load time require a reboot, or a reload of the module if
    O(reload) allows it and nothing depends on the module.
version_added: 0.1.0
author: The rdmaprov contributors (@rdmaprov)
extends_documentation_fragment:
  - rdmaprov.node.options.mlx5
  - rdmaprov.node.options.rails
  - rdmaprov.node.plan
"""

EXAMPLES = r"""
- name: Give mlx5_core its smallest profile, and switch ATS off
  rdmaprov.node.mlx5:
    kind: roce
    rails: "{{ fabric_rails }}"
    module_parameters:
      mlx5_core: {prof_sel: 0}
    firmware_settings:
      ATS_ENABLED: false
"""

RETURN = r"""
changes:
  description: Settings that differed from the description.
  returned: always
  type: list
  elements: dict
  sample: [{layer: configured, device: mlx5_core, setting: prof_sel, seen: none, wanted: "0"}]
reboot:
  description: Reasons that require a reboot.
  returned: always
  type: list
  elements: str
  sample: ["mlx5_core prof_sel is 2, expected 0: read only when the module is loaded"]
"""

from ..module_utils.converge import main
from ..module_utils.roles import mlx5

if __name__ == "__main__":
    main(mlx5)
