"""The survey of a node without Ansible, or of its record: `apply --drifted`, `record`, `plan`.

Runs on the node, or on the controller on a record. The modules beside this one come as an archive.
Standard input is JSON: "arguments" by role, in their types, which the controller has checked with
Ansible's own validator, which is not here; "reboots", whether a node that requires a
reboot gets it; "record", whether to return what was read; "answers", the readings to survey in
place of this machine, or null.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any

from . import busy
from .machine import Machine, NodeError
from .plan import Plan
from .record import Recorder
from .replay import Replay, forbid_reading
from .survey import survey

PROTOCOL = 1  # of the answer; the controller takes another one for none


def main() -> None:
    """Print a survey as JSON, and the record of it if that was asked."""
    given = json.load(sys.stdin)
    machine = _machine(given)
    try:
        machine.require_root()
        found = survey(machine, given["arguments"], _plan, reboots=given["reboots"])
        if isinstance(machine, Recorder):
            busy.users(machine)  # a survey of the record may have changes that interrupt
            found["record"] = machine.record
    except NodeError as error:
        sys.exit(str(error))
    del found["not_cured"]
    json.dump({"protocol": PROTOCOL, **found}, sys.stdout)


def _machine(given: dict[str, Any]) -> Machine:
    if given["answers"] is not None:
        forbid_reading()
        return Replay(given["answers"])
    return Recorder(Machine()) if given["record"] else Machine()


def _plan(name: str, machine: Machine, arguments: dict[str, Any]) -> Plan:
    # By name: reading all roles' sources takes longer than the survey of one.
    role = importlib.import_module(f".roles.{name}", __package__)
    plan: Plan = role.plan(machine, arguments)
    return plan
