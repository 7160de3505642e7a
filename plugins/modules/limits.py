#!/usr/bin/python
"""The module rdmaprov.node.limits."""

from __future__ import annotations

DOCUMENTATION = r"""
module: limits
short_description: Lift the limits that RDMA runs into
description:
  - Has logins (pam_limits) and services (systemd) lock as much memory as RDMA registers, and keeps
    kernel settings as described, now and at boot.
  - A service that runs gets its limit at once and is not restarted.
  - Refuses a node on which another file undoes this at boot, and says which line it is.
version_added: 0.1.0
author: The rdmaprov contributors (@rdmaprov)
extends_documentation_fragment:
  - rdmaprov.node.limits
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
  description: What was not as described.
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
  description: Why a reboot is due.
  returned: always
  type: list
  elements: str
"""

from ..module_utils.converge import main
from ..module_utils.roles import limits

if __name__ == "__main__":
    main(limits)
