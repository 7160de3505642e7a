#!/usr/bin/python
"""The module rdmaprov.node.nccl."""

from __future__ import annotations

DOCUMENTATION = r"""
module: nccl
short_description: Write /etc/nccl.conf
description:
  - Writes /etc/nccl.conf with the exact names of the rails' RDMA devices, the traffic class, and
    how to choose a GID.
  - Backs up a hand-written or edited file as C(nccl.conf.backup-CHECKSUM).
  - Refuses lines that NCCL would misread, because NCCL reports no error. Variable names are checked
    by C(rdmaprov check), not here.
  - Gives the file to enroot's containers if that is asked for.
  - Warns of settings that override the file, such as a variable in /etc/environment.
version_added: 0.1.0
author: The rdmaprov contributors (@rdmaprov)
extends_documentation_fragment:
  - rdmaprov.node.options.nccl
  - rdmaprov.node.options.rails
  - rdmaprov.node.plan
"""

EXAMPLES = r"""
- name: Have NCCL use both rails, marked as the fabric wants it
  rdmaprov.node.nccl:
    kind: roce
    rails: "{{ fabric_rails }}"
    ib_tc: 106
    ib_sl: 0
    ib_pkey: ""
    ib_address_family: ipv4
    cross_nic: 0
    environment:
      NCCL_IB_QPS_PER_CONNECTION: 4
"""

RETURN = r"""
changes:
  description: Settings that differed from the description.
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
  description: Reasons that require a reboot; always empty.
  returned: always
  type: list
  elements: str
"""

from ..module_utils.converge import main
from ..module_utils.roles import nccl

if __name__ == "__main__":
    main(nccl)
