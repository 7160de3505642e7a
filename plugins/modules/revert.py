#!/usr/bin/python
"""The module rdmaprov.node.revert."""

from __future__ import annotations

DOCUMENTATION = r"""
module: revert
short_description: Take back what a role replaced in a run
description:
  - Brings back the files that a run of C(rdmaprov apply) replaced, byte by byte with owner and
    mode, removes those that it created, and has systemctl undo which units start at boot. Then it
    tells the daemons that read them, and makes the bootloader's configuration and the initramfs
    anew.
  - Refuses a file that somebody changed since. What runs stays until a reboot.
  - Without O(role), it changes nothing, and returns what it would take back as
    M(rdmaprov.node.survey) returns what the roles would change.
version_added: 0.2.0
author: The rdmaprov contributors (@rdmaprov)
extends_documentation_fragment: rdmaprov.node.plan
options:
  run:
    description: Name of the run's directory, such as C(20261127-100000-apply).
    type: str
    required: true
  role:
    description: The role to take back; none for a survey.
    type: str
    default: ""
  roles:
    description: Roles that the survey covers; none for all of the run.
    type: list
    elements: str
    default: []
  made:
    description: Whether the run is known to have changed the node.
    type: str
    choices: ["yes", "no", "unknown"]
    default: unknown
  finished:
    description: Whether this is the last task of the run on the node.
    type: bool
    default: false
  refuse_busy:
    description: Whether the survey fails on a node in use, if traffic is interrupted.
    type: bool
    default: false
  planned:
    description: Digest of what was announced; another survey fails. For C(rdmaprov revert).
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Take back what the role nccl wrote
  rdmaprov.node.revert:
    run: 20261127-100000-apply
    role: nccl
"""

RETURN = r"""
changes:
  description: What was taken back; a survey has it for each of C(roles).
  returned: always
  type: list
  elements: dict
"""

import contextlib
import re
import time

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import revert
from ..module_utils.busy import FORCE_ARGUMENT
from ..module_utils.converge import main as converge
from ..module_utils.lock import LOCK_ARGUMENT, release
from ..module_utils.machine import Machine, NodeError

OWN = {
    "run": {"type": "str", "required": True},
    "role": {"type": "str", "default": ""},
    "roles": {"type": "list", "elements": "str", "default": []},
    "made": {"type": "str", "choices": ["yes", "no", "unknown"], "default": "unknown"},
    "finished": {"type": "bool", "default": False},
    "refuse_busy": {"type": "bool", "default": False},
    "planned": {"type": "str", "default": ""},
}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={**OWN, **LOCK_ARGUMENT, **FORCE_ARGUMENT}, supports_check_mode=True
    )
    asked = module.params
    if not re.fullmatch(r"[0-9A-Za-z][0-9A-Za-z.-]{0,99}", asked["run"]):
        module.fail_json(msg="run is not the name of a run")
    if asked["role"]:
        converge(revert, OWN)
        return
    machine = Machine()
    machine.standing = asked["standing_processes"]
    refuses = asked["refuse_busy"] and not asked["force_busy"]
    try:
        machine.require_root()
        found = revert.survey(
            machine, asked["run"], asked["roles"], asked["made"], refuse_busy=refuses
        )
        if asked["finished"]:
            with contextlib.suppress(NodeError):  # its lease ends
                release(machine, asked["lock"])
    except NodeError as error:
        module.fail_json(msg=str(error))
    found["uptime_s"] = time.clock_gettime(time.CLOCK_BOOTTIME)
    if found.get("problems"):
        module.fail_json(msg="; ".join(found["problems"]), **found)
    if asked["finished"] and found.get("pending"):
        module.fail_json(msg=f"not taken back: {', '.join(found['pending'])}", **found)
    module.exit_json(**found)


if __name__ == "__main__":
    main()
