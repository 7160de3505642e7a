"""Options of the module pcie. Written by `make generate`; changes here are lost."""

from __future__ import annotations


class ModuleDocFragment:
    """The options."""

    DOCUMENTATION = r"""
options:
  max_read_request_bytes:
    description: PCIe maximum read request size of the rails' NICs; keep leaves it
      unchanged, as a virtual function's host sets it.
    type: str
    choices: ['128', '256', '512', '1024', '2048', '4096', keep]
    default: '4096'
  acs_redirect:
    description: 'ACS redirect from GPUs to NICs, other GPUs and NVMe drives below
      one PCIe switch: off lets them communicate directly, keep leaves it unchanged.'
    type: str
    choices: ['off', keep]
    required: true
  iommu:
    description: IOMMU mode on the kernel command line, which requires a reboot; keep
      leaves it unchanged.
    type: str
    choices: [passthrough, 'off', keep]
    default: keep
  numa_balancing:
    description: Whether the kernel migrates memory between NUMA nodes automatically,
      which stalls RDMA; keep leaves it unchanged, as tuned may set it.
    type: str
    choices: ['off', 'on', keep]
    default: 'off'
  irq_affinity:
    description: 'CPUs for the rails'' interrupts: local uses those of the rail''s
      NUMA node, keep leaves them unchanged.'
    type: str
    choices: [local, keep]
    default: local
  cpu_governor:
    description: CPU frequency governor; keep leaves it unchanged.
    type: str
    choices: [performance, schedutil, powersave, keep]
    default: performance
"""
