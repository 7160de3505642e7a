"""Options of the module peermem. Written by `make generate`; changes here are lost."""

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
  mode:
    description: How NICs reach GPU memory; auto prefers dma-buf where the node has
      all it needs.
    type: str
    choices: [auto, nvidia-peermem, dmabuf, 'off']
    required: true
  gpu_module:
    description: Flavour of the node's nvidia kernel module; dma-buf is checked against
      it when it is known.
    type: str
"""
