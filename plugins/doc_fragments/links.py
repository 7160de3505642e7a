"""Documentation of the option of modules that configure links."""

from __future__ import annotations


class ModuleDocFragment:
    """The option `link_manager`."""

    DOCUMENTATION = r"""
options:
  link_manager:
    description: What configures the machine's links; V(auto) finds it.
    type: str
    default: auto
"""
