#!/usr/bin/python
"""The module rdmaprov.node.confirm."""

from __future__ import annotations

DOCUMENTATION = r"""
module: confirm
short_description: Confirm a change to the management path
description:
  - Stops the timer that reverts a change to the management path. Run it over a new connection,
    which proves that the node is still reachable. The action plugins of the modules that make such
    changes run it themselves.
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
