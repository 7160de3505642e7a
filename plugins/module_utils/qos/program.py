"""What the units run: bring a node's rails to their descriptions, without Ansible. On the node."""

from __future__ import annotations

import json
import signal
import sys
import time
from functools import partial

from ..machine import Machine, NodeError
from ..plan import NotYet, Plan, carry_out
from .description import Description, describe
from .node import plan_netdevs

DESCRIPTIONS = "/etc/rdmaprov/roce_qos"
# A driver makes the RDMA device some time after the network device.
PATIENCE_S = 30


def description_of(netdev: str) -> str:
    """Return the file with what a network device must be."""
    return f"{DESCRIPTIONS}/{netdev}.json"


def described_netdevs(machine: Machine) -> list[str]:
    """Return the network devices that have a description."""
    return [name[: -len(".json")] for name in machine.names(DESCRIPTIONS) if name.endswith(".json")]


def apply(machine: Machine, netdev: str) -> list[str]:
    """Bring one network device to its description, and return what was changed, in words.

    Raises:
        NodeError: it is not described, or does not become so.
    """
    path = description_of(netdev)
    text = machine.read(path)
    if text is None:
        raise NodeError(f"{netdev}: there is no {path}. Run on the controller: rdmaprov apply")
    wanted = describe(json.loads(text))
    plan = _plan(machine, netdev, wanted)
    carry_out(plan, partial(_plan, machine, netdev, wanted))
    changes = ["{device}: {setting} was {seen}, is {wanted}".format(**c) for c in plan.changes()]
    return [*changes, *plan.notes]


def _plan(machine: Machine, netdev: str, wanted: Description) -> Plan:
    plan = Plan(machine)
    plan_netdevs(plan, [netdev], wanted)
    return plan


def main(arguments: list[str], machine: Machine, patience_s: float = PATIENCE_S) -> int:
    """Apply the descriptions of the network devices that are named, or of all that are there.

    Returns:
        The program's exit code: 1 if one differs from its description.
    """
    # systemd ends it so; an incomplete change must be left in order.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    end = time.monotonic() + patience_s
    waiting = arguments or [
        name for name in described_netdevs(machine) if machine.exists(f"/sys/class/net/{name}")
    ]
    code = 0
    for netdev in waiting:
        code |= _one(machine, netdev, end)
    return code


def _one(machine: Machine, netdev: str, end: float) -> int:
    while True:
        try:
            said = apply(machine, netdev)
        except NotYet as error:
            if time.monotonic() < end:
                time.sleep(1)
                continue
            sys.stderr.write(f"{error}\n")
            return 1
        except (NodeError, ValueError) as error:
            sys.stderr.write(f"{error}\n")
            return 1
        sys.stdout.write("".join(line + "\n" for line in said))
        return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], Machine()))
