"""Options of the module limits. Written by `make generate`; changes here are lost."""

from __future__ import annotations


class ModuleDocFragment:
    """The options."""

    DOCUMENTATION = r"""
options:
  memlock:
    description: 'Memory that a process may lock: unlimited, or a number of KiB. RDMA
      locks every buffer that it registers.'
    type: str
    default: unlimited
  memlock_users:
    description: 'Users that get this limit at login, as in limits.conf: a user, @group
      or *. The * does not include root.'
    type: list
    elements: str
    default: ['*', root]
  memlock_services:
    description: systemd services that get this limit, where installed. Login limits
      do not apply to services.
    type: list
    elements: str
    default:
      - ssh
      - sshd
      - slurmd
      - kubelet
      - containerd
      - docker
      - crio
      - k3s
      - k3s-agent
      - rke2-server
      - rke2-agent
      - pbs_mom
      - pbs
      - sgeexecd
      - lsfd
      - flux
  sysctl:
    description: 'Kernel settings: sysctl name to value.'
    type: dict
    default: {}
"""
