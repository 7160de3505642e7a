"""Options of the module mtu. Written by `make generate`; changes here are lost."""

from __future__ import annotations


class ModuleDocFragment:
    """The options."""

    DOCUMENTATION = r"""
options:
  mtu_bytes:
    description: MTU of the rails' network devices. RoCE needs at least 4192 for an
      RDMA MTU of 4096; 2044 is the IPoIB MTU of a subnet manager's default partition.
    type: int
    required: true
  rdma_bytes:
    description: RDMA MTU required on the ports.
    type: int
    choices: [256, 512, 1024, 2048, 4096]
    required: true
"""
