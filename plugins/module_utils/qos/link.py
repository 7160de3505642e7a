"""A port's link, which a driver may take down and up for a setting. Runs on the node.

mlx5e does so for PFC: Linux drivers/net/ethernet/mellanox/mlx5/core/en_dcbnl.c,
mlx5e_dcbnl_ieee_setpfc (mlx5_toggle_port_link).
"""

from __future__ import annotations

import re
import time

from ..machine import Machine, NodeError
from ..plan import RUNNING, Change, NotYet, Plan
from ..rails import rdma_of
from .state import attempt

# What a plan says of it. RDMA connections survive it if their retries last longer: NCCL's default,
# 7 of 4 s (IB_TIMEOUT 20), does; the default of other programs may not.
EFFECT = "the link goes down and comes up again"
LASTS = "for 2 to 10 s"
# The event of a port that goes down comes some time after the command for it.
_SETTLE_S = 2.0
# Training of a link at 400 Gb/s takes up to about 10 s.
_RETURN_S = 60.0
_PAUSE_S = 0.1


class Link:
    """The link as it was when this was made."""

    def __init__(self, machine: Machine, netdev: str) -> None:
        self._machine = machine
        self._base = f"/sys/class/net/{netdev}"
        self._netdev = netdev
        self._was_up = self._is_up()
        self._changes = self._count()

    def await_return(self, why: str) -> None:
        """Wait until a link that was up, and its RDMA port, are up again; or raise NodeError."""
        if not self._was_up:
            return
        begun = time.monotonic()
        while True:
            waited_s = time.monotonic() - begun
            if self._is_up() and (self._count() >= self._changes + 2 or waited_s > _SETTLE_S):
                return
            if waited_s > _RETURN_S:
                raise NodeError(
                    f"{self._netdev}: its link is still down {_RETURN_S:.0f} s after {why}. "
                    f"Run on the node: ethtool {self._netdev}"
                )
            time.sleep(_PAUSE_S)

    def _is_up(self) -> bool:
        if self._value(f"{self._base}/carrier") != "1":
            return False
        rdma = rdma_of(self._machine, self._netdev)
        state = self._value(f"/sys/class/infiniband/{rdma}/ports/1/state") if rdma else ""
        return state in ("", "4: ACTIVE")

    def _count(self) -> int:
        text = self._value(f"{self._base}/carrier_changes")
        return int(text) if text.isdigit() else 0

    def _value(self, path: str) -> str:
        try:
            return self._machine.value(path) or ""
        except NodeError:
            return ""  # a device that is administratively down has no carrier (EINVAL)


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
