"""Options of the module torch_runtime. Written by `make generate`; changes here are lost."""

from __future__ import annotations


class ModuleDocFragment:
    """The module's options."""

    DOCUMENTATION = r"""
options:
  kind:
    description: 'Where torch comes from: an interpreter that is there already, a
      virtual environment, a container image, or none to manage nothing.'
    type: str
    choices: [interpreter, venv, container, none]
    default: venv
  python:
    description: Interpreter that has torch, or that the virtual environment is made
      with.
    type: str
    default: /usr/bin/python3
  directory:
    description: 'Name of the virtual environment: a link to the place that is in
      use.'
    type: str
    default: /opt/rdmaprov/torch
  requirements:
    description: Packages, each pinned with ==; an interpreter that is there already
      must have them. With --hash=sha256:... behind each, pip takes nothing else.
    type: list
    elements: str
    default: [torch==2.13.0]
  index_url:
    description: Package index to install from; empty for pip's own.
    type: str
    default: ''
  wheelhouse:
    description: Directory on the node with all wheels, in place of an index.
    type: str
    default: ''
  image:
    description: Container image with torch, pinned by tag or digest.
    type: str
    default: ''
  container_tool:
    description: What runs the image; the role brings images for docker and podman.
    type: str
    choices: [docker, podman, enroot, apptainer]
    default: podman
"""
