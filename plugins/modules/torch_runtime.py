#!/usr/bin/python
"""The module rdmaprov.node.torch_runtime."""

from __future__ import annotations

DOCUMENTATION = r"""
module: torch_runtime
short_description: Provide PyTorch for the acceptance test
description:
  - Verifies that an interpreter imports torch in the required versions, builds a virtual
    environment with them, or pulls a container image.
  - A new environment is built beside the one in use, and replaces it only after torch was imported
    in it. The result is recorded, so that an unchanged node needs no import.
version_added: 0.1.0
author: The rdmaprov contributors (@rdmaprov)
extends_documentation_fragment:
  - rdmaprov.node.options.torch_runtime
  - rdmaprov.node.plan
"""

EXAMPLES = r"""
- name: Use the torch that the site's image has
  rdmaprov.node.torch_runtime:
    kind: interpreter
    python: /opt/torch/bin/python3
    requirements: [torch==2.13.0]

- name: Make an environment without any network
  rdmaprov.node.torch_runtime:
    kind: venv
    wheelhouse: /srv/wheels
"""

RETURN = r"""
changes:
  description: Settings that differed from the description.
  returned: always
  type: list
  elements: dict
  sample:
    - layer: configured
      device: /opt/rdmaprov/torch
      setting: packages
      seen: torch is 2.12.0, expected 2.13.0
      wanted: torch==2.13.0
"""

from ..module_utils.converge import main
from ..module_utils.roles import torch_runtime

if __name__ == "__main__":
    main(torch_runtime)
