"""Options of the module torch_runtime. Written by `make generate`; changes here are lost."""

from __future__ import annotations


class ModuleDocFragment:
    """The options."""

    DOCUMENTATION = r"""
options:
  kind:
    description: 'Source of torch: an existing interpreter, a virtual environment,
      a container image, or none to manage nothing.'
    type: str
    choices: [interpreter, venv, container, none]
    default: venv
  python:
    description: Interpreter that has torch, or that creates the virtual environment.
    type: str
    default: /usr/bin/python3
  directory:
    description: Path of the virtual environment. It is a link to the directory in
      use.
    type: str
    default: /opt/rdmaprov/torch
  requirements:
    description: Packages, each pinned with ==. An existing interpreter must have
      these versions. With --hash=sha256:... after each, pip installs only matching
      files.
    type: list
    elements: str
    default: [torch==2.13.0]
  index_url:
    description: Package index; empty uses pip's default.
    type: str
    default: ''
  wheelhouse:
    description: Directory on the node that contains all wheels, instead of an index.
    type: str
    default: ''
  image:
    description: Container image with torch, pinned by tag or digest.
    type: str
    default: ''
  container_tool:
    description: Tool that runs the image. The role pulls images for docker and podman.
    type: str
    choices: [docker, podman, enroot, apptainer]
    default: podman
"""
