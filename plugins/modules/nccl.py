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
  - rdmaprov.node.nccl
  - rdmaprov.node.plan
"""

EXAMPLES = r"""
- name: Have NCCL use both rails, marked as the fabric wants it
  rdmaprov.node.nccl:
    kind: roce
    rails: "{{ fabric_rails }}"
    ib_tc: 106
    ib_address_family: ipv4
    cross_nic: 0
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
