#!/usr/bin/python
"""The module rdmaprov.node.nccl."""

from __future__ import annotations

DOCUMENTATION = r"""
module: nccl
short_description: Write /etc/nccl.conf from the fabric
description:
  - Writes /etc/nccl.conf with the exact names of the rails' RDMA devices, the traffic class, and
    how to choose a GID, so that no job has to know them.
  - A file that someone wrote or edited by hand is kept beside it as C(nccl.conf.backup-CHECKSUM).
  - Refuses what NCCL would not read as it is written, for it says nothing then. Which variables
    NCCL knows is told by C(rdmaprov check), not here.
  - Warns of what counts more than the file, such as a variable in /etc/environment.
version_added: 0.1.0
author: The rdmaprov contributors (@rdmaprov)
extends_documentation_fragment:
  - rdmaprov.node.rails
  - rdmaprov.node.plan
options:
  kind:
    description: Kind of the fabric.
    type: str
    choices: [roce, infiniband]
    required: true
  version:
    description: NCCL's version; one before 2.21 cannot choose a GID.
    type: str
    default: '2.30'
  ib_hca:
    description: RDMA devices by exact name; empty for those of the rails.
    type: list
    elements: str
    default: []
  ib_tc:
    description: Traffic class of NCCL's data.
    type: int
    default: 0
  ib_sl:
    description: Service level of NCCL's data, on InfiniBand.
    type: int
    default: 0
  ib_gid_index:
    description: Index of the GID; V(-1) has NCCL choose by I(ib_address_family).
    type: int
    default: -1
  ib_address_family:
    description: Family of the rails' addresses.
    type: str
    choices: [ipv4, ipv6]
    default: ipv4
  ib_address_range:
    description: Network that the GID lies in; empty for any.
    type: str
    default: ''
  socket_ifname:
    description: Network devices for NCCL's first contact; empty has NCCL choose.
    type: str
    default: ''
  cross_nic:
    description: Whether a ring may cross rails.
    type: int
    choices: [0, 1, 2]
    default: 2
  environment:
    description: Further variables to their values.
    type: dict
    default: {}
  conf_existing:
    description: Whether variables of a file that someone wrote by hand are kept.
    type: str
    choices: [replace, merge]
    default: replace
"""

EXAMPLES = r"""
- name: Have NCCL use both rails, marked as the fabric wants it
  rdmaprov.node.nccl:
    kind: roce
    rails: "{{ fabric_rails }}"
    ib_tc: 106
    environment:
      NCCL_IB_QPS_PER_CONNECTION: 4
"""

RETURN = r"""
changes:
  description: What was not as described.
  returned: always
  type: list
  elements: dict
  sample:
    - layer: configured
      device: /etc/nccl.conf
      setting: NCCL_IB_TC
      seen: "0"
      wanted: "106"
reboot:
  description: Why a reboot is due; never.
  returned: always
  type: list
  elements: str
"""

from ..module_utils.converge import main
from ..module_utils.roles import nccl

if __name__ == "__main__":
    main(nccl)
