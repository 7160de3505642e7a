#!/usr/bin/python
"""The module rdmaprov.node.pcie."""

from __future__ import annotations

DOCUMENTATION = r"""
module: pcie
short_description: Tune PCIe, IOMMU, interrupts and the CPU governor
description:
  - Sets PCIe MaxReadReq of the rails' NICs, turns ACS redirect off between NICs and GPUs below one
    PCIe switch, and sets NUMA balancing, the NUMA node of the rails' interrupts and the CPU
    frequency governor. A systemd unit runs the same code at boot and when a driver is reloaded.
  - Sets the IOMMU mode on the kernel command line, and verifies it after the reboot.
  - Skips what the node does not have and notes why. Fails if a setting cannot be read.
version_added: 0.1.0
author: The rdmaprov contributors (@rdmaprov)
extends_documentation_fragment:
  - rdmaprov.node.options.pcie
  - rdmaprov.node.options.rails
  - rdmaprov.node.plan
"""

EXAMPLES = r"""
- name: Let GPUs and NICs talk below one PCIe switch
  rdmaprov.node.pcie:
    rails: "{{ fabric_rails }}"
    acs_redirect: 'off'
    iommu: passthrough
"""

RETURN = r"""
changes:
  description: Settings that differed from the description.
  returned: always
  type: list
  elements: dict
  sample:
    - layer: running
      device: ens1f0np0 0000:18:00.0
      setting: MaxReadReq
      seen: 512 bytes
      wanted: 4096 bytes
notes:
  description: Settings that do not apply to this node, and why.
  returned: always
  type: list
  elements: str
  sample: ["governor: the kernel does not set frequencies (/sys/devices/system/cpu/cpufreq)"]
reboot:
  description: Reasons that require a reboot.
  returned: always
  type: list
  elements: str
  sample: ["the running kernel has '', expected 'iommu=pt' (/proc/cmdline)"]
"""

from ..module_utils.converge import main
from ..module_utils.roles import pcie

if __name__ == "__main__":
    main(pcie)
