"""Options of the module mlx5. Written by `make generate`; changes here are lost."""

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
  module_parameters:
    description: 'Kernel module to its parameters and their values. One that the module
      does not have is refused: the kernel would ignore it silently.'
    type: dict
    default: {}
  initramfs:
    description: Whether the initramfs is made anew after a change; auto does so when
      it carries the module.
    type: str
    choices: [auto, always, never]
    default: auto
  reload:
    description: Whether modules may be reloaded, under the guard, for parameters
      read at load time; otherwise a reboot is due.
    type: str
    choices: [never, if-needed]
    default: never
  firmware_settings:
    description: Firmware setting, by mlxconfig's name, to its value on every rail;
      takes effect at the next reboot.
    type: dict
    default: {}
  firmware_version:
    description: Firmware that every rail must run, such as 28.43.2026; empty accepts
      any. The role reports, it does not burn.
    type: str
    default: ''
"""
