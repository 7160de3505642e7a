#!/usr/bin/python
"""The module rdmaprov.node.ofed."""

from __future__ import annotations

DOCUMENTATION = r"""
module: ofed
short_description: Install the RDMA drivers
description:
  - Installs one version of the distribution's RDMA drivers, DOCA-OFED or MLNX_OFED, and removes the
    other flavours first.
  - Before packages change, refuses a key with another fingerprint, a version that the repository
    does not have, unrelated packages that would be removed, and a kernel that would not load
    unsigned modules.
  - Builds the modules for the running and the newest kernel, rebuilds a DKMS GPU driver if the
    symbols of the RDMA driver changed, and rebuilds each initramfs of these kernels.
  - If other modules than the installed ones are loaded, a reboot is required, or a restart of
    openibd if O(restart) allows it and nothing uses them.
version_added: 0.1.0
author: The rdmaprov contributors (@rdmaprov)
extends_documentation_fragment:
  - rdmaprov.node.options.ofed
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
  description: Settings that differed from the description.
  returned: always
  type: list
  elements: dict
  sample: [{layer: configured, device: doca-ofed, setting: version, seen: absent, wanted: 3.1.0}]
reboot:
  description: Reasons that require a reboot.
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
