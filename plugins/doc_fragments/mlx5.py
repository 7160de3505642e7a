"""Options of the module mlx5. Written by `make generate`; changes here are lost."""

from __future__ import annotations


class ModuleDocFragment:
    """The options."""

    DOCUMENTATION = r"""
options:
  kind:
    description: Kind of the fabric. Settings for the other kind are ignored.
    type: str
    required: true
    choices: [roce, infiniband]
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
  firmware_profiles:
    description: Sets of recommended firmware settings, for what a card has of them
      (README, "Profiles"); O(firmware_settings) overrides them.
    type: list
    elements: str
    choices: [roce, gpudirect, no-vfs, host-dcbx, firmware-dcbx, weka]
    default: []
  firmware_version:
    description: Firmware version required on all rails, such as 28.43.2026; empty
      accepts any. The role checks the version and does not burn firmware.
    type: str
    default: ''
"""
