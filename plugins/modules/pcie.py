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
  - rdmaprov.node.rails
  - rdmaprov.node.plan
options:
  max_read_request_bytes:
    description: Largest PCIe read that a rail's NIC asks for.
    type: int
    choices: [128, 256, 512, 1024, 2048, 4096]
    default: 4096
  acs_redirect:
    description:
      - V(off) has no redirect of ACS between a rail and a GPU; refused while devices are passed
        through to virtual machines.
    type: str
    choices: ['off', keep]
    default: keep
  iommu:
    description: IOMMU mode on the kernel's command line; publishes a reboot.
    type: str
    choices: [passthrough, 'off', keep]
    default: keep
  numa_balancing:
    description: Whether the kernel moves memory between NUMA nodes by itself.
    type: bool
    default: false
  irq_affinity:
    description: Where a rail's interrupts run, on its own NUMA node or as they are.
    type: str
    choices: [local, keep]
    default: local
  cpu_governor:
    description: Frequency governor of the processors.
    type: str
    choices: [performance, schedutil, powersave, keep]
    default: performance
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
