#!/usr/bin/python
"""The module rdmaprov.node.limits."""

from __future__ import annotations

DOCUMENTATION = r"""
module: limits
short_description: Set memlock limits and kernel settings
description:
  - Sets the locked-memory limit of logins (pam_limits) and services (systemd), and kernel settings,
    now and at boot.
  - A running service gets its limit at once and is not restarted.
  - Refuses a node on which another file overrides this at boot, and names the file and line.
version_added: 0.1.0
author: The rdmaprov contributors (@rdmaprov)
extends_documentation_fragment:
  - rdmaprov.node.options.limits
  - rdmaprov.node.plan
"""

EXAMPLES = r"""
- name: Let jobs register memory and swap little
  rdmaprov.node.limits:
    memlock: unlimited
    sysctl:
      vm.swappiness: 1
"""

RETURN = r"""
changes:
  description: Settings that differed from the description.
  returned: always
  type: list
  elements: dict
  sample:
    - layer: running
      device: ssh.service
      setting: locked memory
      seen: 8388608 soft, 8388608 hard
      wanted: unlimited
reboot:
  description: Reasons that require a reboot.
  returned: always
  type: list
  elements: str
"""

from ..module_utils.converge import main
from ..module_utils.roles import limits

if __name__ == "__main__":
    main(limits)
