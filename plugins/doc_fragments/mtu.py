"""Options of the module mtu. Written by `make generate`; changes here are lost."""

from __future__ import annotations


class ModuleDocFragment:
    """The options."""

    DOCUMENTATION = r"""
options:
  kind:
    description: Kind of the fabric. Settings for the other kind are ignored.
    type: str
    required: true
    choices: [roce, infiniband]
  ipoib:
    description: 'Whether the rails'' IPoIB network devices are used. With false,
      their state, MTU and files are left alone and not judged: RDMA does not need
      them. Used on InfiniBand only.'
    type: bool
    default: true
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
