#!/usr/bin/python
"""The module rdmaprov.node.pcie."""

from __future__ import annotations

DOCUMENTATION = r"""
module: pcie
short_description: Clear the path between GPU and NIC
description:
  - Sets PCIe MaxReadReq of the rails' NICs, switches redirects of ACS off between a NIC and a GPU
    below one PCIe switch, and sets NUMA balancing, the NUMA node of the rails' interrupts and the
    frequency governor. A systemd unit does the same with the same code at each boot, and when a
    driver is loaded again.
  - Sets the IOMMU mode on the kernel's command line, and proves it once the kernel was started so.
  - What a node does not have is skipped with a reason; what cannot be told is an error.
version_added: 0.1.0
author: The rdmaprov contributors (@rdmaprov)
extends_documentation_fragment:
  - rdmaprov.node.pcie
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
  description: What was not as described.
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
  description: What of the description has nothing to apply to, and why.
  returned: always
  type: list
  elements: str
  sample: ["governor: the kernel does not set frequencies (/sys/devices/system/cpu/cpufreq)"]
reboot:
  description: Why a reboot is due.
  returned: always
  type: list
  elements: str
  sample: ["the kernel was started with '' and needs 'iommu=pt' (/proc/cmdline)"]
"""

from ..module_utils.converge import main
from ..module_utils.roles import pcie

if __name__ == "__main__":
    main(pcie)
