"""The survey of a node without Ansible: `rdmaprov apply --drifted`. Runs on the node.

The modules beside this one come as an archive, the arguments on standard input, in their types:
the controller has checked them with Ansible's own validator, which is not here.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any

from .machine import Machine, NodeError
from .plan import Plan
from .survey import survey

PROTOCOL = 1  # of the answer; the controller takes another one for none


def main() -> None:
    """Print a survey as JSON, for arguments by role that are read as JSON."""
    machine = Machine()
    try:
        machine.require_root()
        found = survey(machine, json.load(sys.stdin), _plan)
    except NodeError as error:
        sys.exit(str(error))
    del found["not_cured"]
    json.dump({"protocol": PROTOCOL, **found}, sys.stdout)


def _plan(name: str, machine: Machine, arguments: dict[str, Any]) -> Plan:
    # By name: reading all roles' sources takes longer than the survey of one.
    role = importlib.import_module(f".roles.{name}", __package__)
    plan: Plan = role.plan(machine, arguments)
    return plan
