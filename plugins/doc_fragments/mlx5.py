"""Options of the module mlx5. Written by `make generate`; changes here are lost."""

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
  module_parameters:
    description: Kernel module to its parameters and their values. Unknown parameters
      are refused, because the kernel ignores them silently.
    type: dict
    default: {}
  initramfs:
    description: Whether to rebuild the initramfs after a change; auto rebuilds it
      if it contains the module.
    type: str
    choices: [auto, always, never]
    default: auto
  reload:
    description: Whether the role may reload modules, under the guard, for parameters
      that are read at load time. Otherwise a reboot is required.
    type: str
    choices: [never, if-needed]
    default: never
  firmware_settings:
    description: Firmware setting, by its mlxconfig name, to its value on all rails.
      Takes effect at the next reboot.
    type: dict
    default: {}
  firmware_version:
    description: Firmware version required on all rails, such as 28.43.2026; empty
      accepts any. The role checks the version and does not burn firmware.
    type: str
    default: ''
"""
