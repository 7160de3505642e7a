"""Documentation of what all modules that make a plan have in common."""

from __future__ import annotations


class ModuleDocFragment:
    """Their attributes."""

    DOCUMENTATION = r"""
options:
  lock:
    description: The run, for the node's lock. Given by the action plugin; not to be given.
    type: dict
    default: {}
  force_busy:
    description:
      - Whether traffic may be interrupted although a job uses the node's RDMA devices or GPUs.
        Given by the action plugin, from the variable C(apply_force_busy); not to be given.
    type: bool
    default: false
  standing_processes:
    description: Programs that do not count as users. Given by the action plugin; not to be given.
    type: list
    elements: str
    default: []
attributes:
  check_mode:
    description: Says what would change, and changes nothing.
    support: full
  diff_mode:
    description: Shows the files' texts before and after.
    support: full
notes:
  - Runs as root. Plans, makes the changes, and plans again; what is then not in effect is an error.
"""
