"""Documentation of the options of modules that work on rails."""

from __future__ import annotations


class ModuleDocFragment:
    """The option `rails`."""

    DOCUMENTATION = r"""
options:
  rails:
    description:
      - The node's rails in their order, as in the role fabric's C(fabric_rails).
    type: list
    elements: dict
    required: true
    suboptions:
      netdev:
        description: Name of the rail's network device.
        type: str
      pci:
        description: PCI address of the rail's function, in place of I(netdev).
        type: str
      address:
        description: Address with prefix length.
        type: str
      gateway:
        description: Router of the rail's subnet.
        type: str
      gpus:
        description: GPUs that use this rail, by index.
        type: list
        elements: int
"""
