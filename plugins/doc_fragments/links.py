"""Options of several modules. Written by `make generate`; changes here are lost."""

from __future__ import annotations


class ModuleDocFragment:
    """The options."""

    DOCUMENTATION = r"""
options:
  link_manager:
    description: Service that configures the network devices of the node; auto detects
      it for each device.
    type: str
    choices: [auto, systemd-networkd, NetworkManager, ifupdown, netplan]
    default: auto
"""
