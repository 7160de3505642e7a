#!/usr/bin/python
"""The module rdmaprov.node.survey."""

from __future__ import annotations

DOCUMENTATION = r"""
module: survey
short_description: Show what each role would change on a node
description:
  - Plans all roles in one process and one round trip. Changes nothing.
  - Fails if the node does not match its description.
version_added: 0.1.0
author: The rdmaprov contributors (@rdmaprov)
extends_documentation_fragment: rdmaprov.node.plan
options:
  roles:
    description: Names of the roles; all of the collection's by default.
    type: list
    elements: str
  finished:
    description: Whether to fail if a role still has something to change.
    type: bool
    default: false
  rebooted_from:
    description:
      - What C(boot_id) was before a reboot. The module fails if it still is, if a role has
        something to change, or if a reason for a reboot is left.
    type: str
    default: ''
  reboots:
    description:
      - Whether a reboot follows if a role requires one. The run then holds the node until it;
        else a survey that is O(finished) releases the node's lock.
    type: bool
    default: false
  refuse_busy:
    description:
      - Whether to fail if a role, or the reboot, would interrupt traffic and a job uses the node.
        The variable C(apply_force_busy) has precedence.
    type: bool
    default: false
  planned:
    description:
      - A digest of what a plan announced for the node. The task fails if the survey announces
        anything else. Compared on the controller.
    type: str
    default: ''
  arguments:
    description: By role, the arguments of its module. Found in the role's task; not to be given.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: See what the MTU would need
  rdmaprov.node.survey:
    roles: [mtu]
"""

RETURN = r"""
roles:
  description:
    - For each role, its C(changes), the reasons that require a C(reboot), what it C(interrupts),
      what it C(waits) for, and C(notes).
  returned: always
  type: dict
pending:
  description: Roles that have changes to make, in order.
  returned: always
  type: list
  elements: str
problems:
  description: Problems that no role can fix. The module fails if there are any.
  returned: always
  type: list
  elements: str
unknown:
  description: Roles whose problem is a device of a kind that is not supported.
  returned: always
  type: list
  elements: str
busy:
  description: Who uses the RDMA devices and GPUs, if a role or the reboot interrupts traffic.
  returned: always
  type: list
  elements: str
boot_id:
  description: The kernel's ID of this boot.
  returned: always
  type: str
uptime_s:
  description: How long the node has been up, in seconds.
  returned: always
  type: float
"""

import contextlib
import time

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import long_step
from ..module_utils.arguments import plan_role
from ..module_utils.busy import FORCE_ARGUMENT, refusal
from ..module_utils.lock import LOCK_ARGUMENT, Held, release
from ..module_utils.machine import Machine, NodeError
from ..module_utils.survey import interruptions, is_over, remaining, remember, survey


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "roles": {"type": "list", "elements": "str"},
            "arguments": {"type": "dict", "default": {}},
            "finished": {"type": "bool", "default": False},
            "rebooted_from": {"type": "str", "default": ""},
            "reboots": {"type": "bool", "default": False},
            "refuse_busy": {"type": "bool", "default": False},
            "planned": {"type": "str", "default": ""},
            **LOCK_ARGUMENT,
            **FORCE_ARGUMENT,
        },
        supports_check_mode=True,
    )
    machine = Machine()
    machine.standing = module.params["standing_processes"]
    lock = module.params["lock"]
    try:
        machine.require_root()
        if lock:
            long_step.refuse(machine, lock["holder"]["id"])
        if lock.get("replace"):
            long_step.clear(machine, lock["replace"], others=False)
    except Held as error:
        module.fail_json(msg=str(error), held=error.held)
    except NodeError as error:
        module.fail_json(msg=str(error))
    reboots = module.params["reboots"]
    found = survey(machine, module.params["arguments"], plan_role, reboots=reboots)
    found["uptime_s"] = time.clock_gettime(time.CLOCK_BOOTTIME)
    for warning in found.pop("warnings"):
        module.warn(warning)
    before = module.params["rebooted_from"]
    if (before or module.params["finished"]) and not module.check_mode:
        with contextlib.suppress(NodeError):  # a full disk costs one more reboot
            remember(machine, found, rebooted=bool(before) and before != found["boot_id"])
    del found["not_cured"]
    if found["busy"] and module.params["refuse_busy"] and not module.params["force_busy"]:
        found["problems"].append(refusal(found["busy"], interruptions(found["roles"])))
    rest = remaining(found, before) if before or module.params["finished"] else ""
    if module.params["finished"] and is_over(found, rest, reboots=reboots):
        with contextlib.suppress(NodeError):  # its lease ends
            release(machine, lock)
    if found["problems"]:
        module.fail_json(msg="; ".join(found["problems"]), **found)
    if before and before == found["boot_id"]:
        module.fail_json(msg="the node did not reboot (boot_id is the same)", **found)
    if rest:
        when = "after the reboot" if before else "after the roles ran"
        module.fail_json(msg=f"still not in effect {when}: {rest}", **found)
    module.exit_json(**found)


if __name__ == "__main__":
    main()
