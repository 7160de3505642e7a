"""Set what the role pcie describes in the running kernel: the program of its unit.

Runs on the node, from the role's own code, without Ansible.
"""

from __future__ import annotations

import json
import sys

from . import pcie_running
from .machine import Machine, NodeError
from .plan import Plan, described


def main(machine: Machine, description: str) -> str:
    """Return what was changed, as one line; empty if nothing had to be.

    Args:
        description: the file that the role wrote.

    Raises:
        NodeError: as planning and the steps do, and if something is not in effect afterwards.

    """
    text = machine.read(description)
    if text is None:
        raise NodeError(f"there is no {description}: run the role pcie")
    arguments = json.loads(text)
    plan = Plan(machine)
    pcie_running.add(plan, arguments)
    for step in plan.steps:
        step.do()
    after = Plan(machine)
    pcie_running.add(after, arguments)
    if after.steps:
        raise NodeError("not in effect after it was set: " + described(after.changes()))
    return described(plan.changes())


if __name__ == "__main__":
    try:
        sys.stdout.write(main(Machine(), sys.argv[1]) + "\n")
    except NodeError as error:
        sys.exit(str(error))
