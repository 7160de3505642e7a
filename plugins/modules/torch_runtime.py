#!/usr/bin/python
"""The module rdmaprov.node.torch_runtime."""

from __future__ import annotations

DOCUMENTATION = r"""
module: torch_runtime
short_description: Give a node what the acceptance needs to run
description:
  - Proves that an interpreter imports torch in the versions wanted, makes a virtual environment
    with them, or brings a container image.
  - An environment is built beside the one in use and takes its place only after torch was imported
    in it. What was proven is remembered, so a node that is right costs no import.
version_added: 0.1.0
author: The rdmaprov contributors (@rdmaprov)
extends_documentation_fragment: rdmaprov.node.plan
options:
  kind:
    description: Where torch comes from; V(none) manages nothing.
    type: str
    choices: [interpreter, venv, container, none]
    default: venv
  python:
    description: Interpreter that has torch, or that the environment is made with.
    type: str
    default: /usr/bin/python3
  directory:
    description: Name of the virtual environment, a link to the place that is in use.
    type: str
    default: /opt/rdmaprov/torch
  requirements:
    description:
      - Packages, each pinned with C(==); with C(--hash=sha256:...) pip takes nothing without one.
    type: list
    elements: str
    default: [torch==2.13.0]
  index_url:
    description: Package index; empty for pip's own.
    type: str
    default: ''
  wheelhouse:
    description: Directory on the node with all wheels, in place of an index.
    type: str
    default: ''
  image:
    description: Container image, pinned by tag or digest.
    type: str
    default: ''
  container_tool:
    description: What runs the image; images are brought for V(docker) and V(podman).
    type: str
    choices: [docker, podman, enroot, apptainer]
    default: podman
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
  description: What was not as described.
  returned: always
  type: list
  elements: dict
  sample:
    - layer: configured
      device: /opt/rdmaprov/torch
      setting: packages
      seen: torch is 2.12.0, wanted 2.13.0
      wanted: torch==2.13.0
"""

from ..module_utils.converge import main
from ..module_utils.roles import torch_runtime

if __name__ == "__main__":
    main(torch_runtime)
