#!/usr/bin/python
"""The module rdmaprov.node.ofed."""

from __future__ import annotations

DOCUMENTATION = r"""
module: ofed
short_description: Install one flavour of the RDMA drivers
description:
  - Has the kernel's own RDMA drivers, DOCA-OFED or MLNX_OFED on a node, of one version, and removes
    the other flavours first.
  - A key that is not the one named, a version that the repository lacks, packages that would go
    along, and a kernel that would not load unsigned modules are refused before packages change.
  - Compiles the modules for the running and the newest kernel, compiles a GPU driver of DKMS again
    where the RDMA driver's symbols changed, and makes each initramfs of these kernels anew.
  - Modules that run and are not the installed ones are a reason for a reboot, or for a restart of
    openibd if I(restart) allows it and nothing uses them.
version_added: 0.1.0
author: The rdmaprov contributors (@rdmaprov)
extends_documentation_fragment:
  - rdmaprov.node.ofed
  - rdmaprov.node.plan
"""

EXAMPLES = r"""
- name: Run DOCA-OFED 3.1.0 from a mirror
  rdmaprov.node.ofed:
    source: doca
    version: 3.1.0
    repository_url: https://mirror.example/doca/3.1.0/ubuntu24.04/x86_64/
    repository_key_url: https://mirror.example/doca/GPG-KEY-Mellanox.pub
"""

RETURN = r"""
changes:
  description: What was not as described.
  returned: always
  type: list
  elements: dict
  sample: [{layer: configured, device: doca-ofed, setting: version, seen: absent, wanted: 3.1.0}]
reboot:
  description: Why a reboot is due.
  returned: always
  type: list
  elements: str
  sample:
    - "mlx5_core: version none runs, 25.07-0.9.7 is installed (/sys/module/mlx5_core/version)"
"""

from ..module_utils.converge import main
from ..module_utils.roles import ofed

if __name__ == "__main__":
    main(ofed)
