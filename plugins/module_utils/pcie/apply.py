"""Set what the role pcie describes in the running kernel: the program of its unit.

Runs on the node, from the role's own code, without Ansible.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from ..machine import Machine, NodeError
from ..plan import Plan, carry_out, changes_text
from ..rails import Rail, present
from . import running


def main(machine: Machine, description: str) -> str:
    """Return what was changed, as one line; empty if nothing had to be.

    What can be set is set, also where a rail is missing: that is the error afterwards.

    Raises:
        NodeError: as planning and the steps do, if something is not in effect afterwards, and if a
            rail is not there.
    """
    text = machine.read(description)
    if text is None:
        raise NodeError(f"there is no {description}: run the role pcie")
    arguments = json.loads(text)
    rails, missing = present(machine, arguments["rails"])
    plan = _plan(machine, rails, arguments)
    carry_out(plan, lambda: _plan(machine, rails, arguments))
    if missing:
        raise NodeError("; ".join(str(each) for each in missing))
    return changes_text(plan.changes())


def _plan(machine: Machine, rails: list[Rail], arguments: dict[str, Any]) -> Plan:
    plan = Plan(machine)
    running.add(plan, rails, arguments)
    return plan


if __name__ == "__main__":
    try:
        sys.stdout.write(main(Machine(), sys.argv[1]) + "\n")
    except NodeError as error:
        sys.exit(str(error))
