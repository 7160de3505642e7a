"""Options of the module limits. Written by `make generate`; changes here are lost."""

from __future__ import annotations


class ModuleDocFragment:
    """The module's options."""

    DOCUMENTATION = r"""
options:
  memlock:
    description: 'Memory that a process may lock: unlimited, or a number of KiB. RDMA
      locks every buffer that it registers.'
    type: str
    default: unlimited
  memlock_users:
    description: 'Whose logins get it, as in limits.conf: a user, @group or *; * does
      not cover root.'
    type: list
    elements: str
    default: ['*', root]
  memlock_services:
    description: systemd services that get it, where they are installed; logins by
      pam do not reach them.
    type: list
    elements: str
    default: [ssh, sshd, slurmd, kubelet, containerd]
  sysctl:
    description: Kernel setting, by sysctl's name, to its value.
    type: dict
    default: {}
"""
