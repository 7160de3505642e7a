"""Options of the module pcie. Written by `make generate`; changes here are lost."""

from __future__ import annotations


class ModuleDocFragment:
    """The module's options."""

    DOCUMENTATION = r"""
options:
  rails:
    description: The rails of the node, in order. Rail i of all nodes forms one network
      plane. Each rail needs a netdev or a pci.
    type: list
    elements: dict
    required: true
    suboptions:
      netdev:
        description: Network device of the rail, as shown by `ip link`.
        type: str
      pci:
        description: PCI address of the rail's function, such as 0000:18:00.0. Unlike
          a device name, it does not change after an upgrade.
        type: str
      address:
        description: Address with prefix length, such as 198.18.0.1/24 or fd00::1/64.
        type: str
      gateway:
        description: Router of the rail's subnet. With a gateway, rail i can have
          a subnet of its own in each rack; without one, all nodes share one subnet
          on rail i.
        type: str
      gpus:
        description: Indexes of the GPUs that use this rail.
        type: list
        elements: int
  max_read_request_bytes:
    description: PCIe maximum read request size of the rails' NICs.
    type: int
    choices: [128, 256, 512, 1024, 2048, 4096]
    default: 4096
  acs_redirect:
    description: 'ACS redirect between GPUs and NICs below one PCIe switch: off lets
      them communicate directly, keep leaves it unchanged.'
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
    description: Whether the kernel migrates memory between NUMA nodes automatically.
      Migration stalls RDMA.
    type: bool
    default: false
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
