#!/usr/bin/python
"""The module rdmaprov.node.confirm."""

from __future__ import annotations

DOCUMENTATION = r"""
module: confirm
short_description: Keep a change on the way to the node
description:
  - Stops the timer that would take a change back. To be run over a new connection, which shows
    that the node can still be reached. The modules that make such changes do so by themselves.
version_added: 0.1.0
author: The rdmaprov contributors (@rdmaprov)
options:
  timer:
    description: What the module returned as C(confirm).
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Keep the new MTU
  rdmaprov.node.confirm:
    timer: "{{ result.confirm }}"
"""

RETURN = r""" # """

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.guard import confirm
from ..module_utils.machine import Machine, NodeError


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec={"timer": {"type": "str", "required": True}})
    try:
        confirm(Machine(), module.params["timer"])
    except NodeError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=True)


if __name__ == "__main__":
    main()
