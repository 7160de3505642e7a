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
  ipoib_mode:
    description: Mode of the rails' IPoIB network devices, running and at boot. connected
      allows an MTU of 65520, and ConnectX-4 and later lack it, unless OFED's ib_ipoib
      is loaded with ipoib_enhanced 0. keep leaves the mode alone. Used on InfiniBand
      with O(ipoib) only.
    type: str
    choices: [keep, datagram, connected]
    default: keep
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
