"""Options of the module peermem. Written by `make generate`; changes here are lost."""

from __future__ import annotations


class ModuleDocFragment:
    """The options."""

    DOCUMENTATION = r"""
options:
  mode:
    description: How NICs access GPU memory; auto prefers dma-buf if the node supports
      it.
    type: str
    choices: [auto, nvidia-peermem, dmabuf, 'off']
    required: true
  gpu_module:
    description: Flavour of the nvidia kernel module. If set, it is verified, and
      dma-buf is checked against it.
    type: str
"""
