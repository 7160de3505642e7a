"""Options of several modules. Written by `make generate`; changes here are lost."""

from __future__ import annotations


class ModuleDocFragment:
    """The options."""

    DOCUMENTATION = r"""
options:
  guard_allowed_netdevs:
    description: Network devices that may be changed although the management path,
      the default gateway or storage over the network uses them.
    type: list
    elements: str
    default: []
  guard_revert_s:
    description: Seconds until a change to the management path is reverted, unless
      a new connection confirms it.
    type: int
    default: 60
"""
