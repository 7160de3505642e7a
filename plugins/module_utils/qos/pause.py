"""Global pause of a port. Runs on the node."""

from __future__ import annotations

import re

from ..machine import Machine, NodeError
from ..plan import RUNNING, Change, NotYet, Plan
from .state import attempt


def plan_pause(plan: Plan, netdev: str, wanted: bool) -> None:
    """Plan global pause: after PFC, whose change alters it in mlx5's one register for both."""
    machine = plan.machine
    seen, text = _pause(machine, netdev), "on" if wanted else "off"
    if seen == (text, text):
        return

    def command(rx: str, tx: str) -> list[str]:
        return ["ethtool", "-A", netdev, "rx", rx, "tx", tx]

    def do() -> None:
        # With nothing to change any more, ethtool before 5.10 ends with an error.
        failed = attempt(machine, [command(text, text)])
        if failed is not None and _pause(machine, netdev) != (text, text):
            raise failed

    change = Change(RUNNING, netdev, "global pause", "rx {}, tx {}".format(*seen), text)
    plan.add(change, do, [command(*seen)])


def _pause(machine: Machine, netdev: str) -> tuple[str, str]:
    if not machine.has("ethtool"):
        raise NotYet(f"{netdev}: ethtool is not installed, which shows global pause")
    shown = machine.run(["ethtool", "-a", netdev])
    found = [re.search(rf"^{each}:\s+(on|off)$", shown, re.M) for each in ("RX", "TX")]
    if found[0] is None or found[1] is None:
        raise NodeError(f"{netdev}: ethtool -a {netdev} does not say whether pause is on")
    return found[0][1], found[1][1]
