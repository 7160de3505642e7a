"""Documentation of the options of modules that touch links."""

from __future__ import annotations


class ModuleDocFragment:
    """The options of the guard."""

    DOCUMENTATION = r"""
options:
  guard_allowed_netdevs:
    description:
      - Network devices that may be changed although the way to the node uses them.
    type: list
    elements: str
    default: []
  guard_revert_s:
    description: Seconds after which such a change is taken back unless it was confirmed.
    type: int
    default: 60
"""
