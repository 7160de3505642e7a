"""Options of the module pcie. Written by `make generate`; changes here are lost."""

from __future__ import annotations


class ModuleDocFragment:
    """The module's options."""

    DOCUMENTATION = r"""
options:
  rails:
    description: 'The node''s rails in their order: rail i of every node is one network
      plane. Each has a netdev or a pci.'
    type: list
    elements: dict
    required: true
    suboptions:
      netdev:
        description: Name of the rail's network device, as `ip link` shows it.
        type: str
      pci:
        description: PCI address of the rail's function, such as 0000:18:00.0; stays
          when names change.
        type: str
      address:
        description: Address with prefix length, such as 198.18.0.1/24 or fd00::1/64.
        type: str
      gateway:
        description: Router of the rail's subnet. With it, rail i may have one subnet
          for each rack; without it, one for the fleet.
        type: str
      gpus:
        description: GPUs, by index, that use this rail.
        type: list
        elements: int
  max_read_request_bytes:
    description: Largest PCIe read that a rail's NIC asks for.
    type: int
    choices: [128, 256, 512, 1024, 2048, 4096]
    default: 4096
  acs_redirect:
    description: 'ACS redirect between GPU and NIC: off lets them talk below one PCIe
      switch, keep leaves it.'
    type: str
    choices: ['off', keep]
    required: true
  iommu:
    description: IOMMU mode on the kernel command line, which needs a reboot; keep
      leaves it.
    type: str
    choices: [passthrough, 'off', keep]
    default: keep
  numa_balancing:
    description: Whether the kernel moves memory between NUMA nodes by itself; it
      stalls RDMA when it does.
    type: bool
    default: false
  irq_affinity:
    description: 'Where a rail''s interrupts run: on its own NUMA node, or left as
      they are.'
    type: str
    choices: [local, keep]
    default: local
  cpu_governor:
    description: Frequency governor of the processors; keep leaves it.
    type: str
    choices: [performance, schedutil, powersave, keep]
    default: performance
"""
