"""What the way to a node depends on, and how a change there takes itself back.

Runs on the node. A device is on the way if the controller's connection, the default gateway or
storage uses it, or a device on top of it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shlex
import time
from dataclasses import dataclass
from typing import Any

from . import storage
from .machine import CommandFailed, Machine, NodeError
from .netdevs import with_below
from .plan import Plan, Refused, Step
from .rails import Rail

STATE = "/run/rdmaprov/revert"
STEP_S = 10.0  # a step takes well under a second; a busy node may need several


def ways(machine: Machine) -> dict[str, list[str]]:
    """Return the network devices that the node cannot do without, and what uses each.

    Raises:
        NodeError: the routes cannot be read; nothing may be changed then.
    """
    uses: dict[str, list[str]] = {}

    def use(netdev: str, what: str) -> None:
        if netdev in ("", "lo") or what in uses.get(netdev, []):
            return
        uses.setdefault(netdev, []).append(what)
        for name in machine.names("/sys/class/net/" + netdev):
            if name.startswith("lower_"):
                use(name[len("lower_") :], what)

    for address in machine.ask("ends of the ssh connection", lambda: _controllers(machine)):
        use(_device_to(machine, address), f"the connection to {address}")
    for family in ("-4", "-6"):
        for route in json.loads(_ip(machine, family, "route", "show", "default") or "[]"):
            use(route.get("dev", ""), "the default gateway")
    for server, what in storage.servers(machine):
        use(_device_to(machine, server), what)
    for netdev, what in storage.rdma_users(machine):
        use(netdev, what)
    return uses


def devices_to_guard(
    machine: Machine, rails: list[Rail], arguments: dict[str, Any], *, below: bool = False
) -> list[str]:
    """Return the rails' network devices that changes must have a way back for.

    Args:
        below: the changes are also to what a rail stands on, such as the parent of a VLAN.

    Raises:
        Refused: the node depends on one, and the site does not allow to change it.
    """
    uses = ways(machine)
    stacks = [with_below(machine, rail.netdev) if below else [rail.netdev] for rail in rails]
    # A bond that is used stands for its ports.
    used = [next((each for each in stack if each in uses), "") for stack in stacks]
    found = list(dict.fromkeys(each for each in used if each))
    for netdev in found:
        if netdev not in arguments["guard_allowed_netdevs"]:
            raise Refused(
                "{0} is on the management path: {1} uses it. To change it anyway, "
                "write fabric_guard_allowed_netdevs: [{0}]".format(
                    netdev, " and ".join(uses[netdev])
                )
            )
    return found


def require(
    plan: Plan, rails: list[Rail], arguments: dict[str, Any], *, below: bool = False
) -> None:
    """Have a plan with steps know which rails are on the management path.

    To be called as soon as there are steps: what is refused here says more than what comes later.

    Raises:
        Refused: as devices_to_guard() does.
    """
    if plan.steps and not plan.guarded:
        plan.guarded = devices_to_guard(plan.machine, rails, arguments, below=below)


@dataclass(frozen=True)
class Guard:
    """A timer that reverts steps on the management path."""

    name: str
    deadline: float  # when it fires, on the clock of `time.monotonic`
    revert_s: float  # seconds from its start to that

    def require_time(self) -> None:
        """Raise NodeError for a step that the timer would not revert, as it fires while it runs."""
        left = self.deadline - time.monotonic()
        if left < min(STEP_S, self.revert_s / 2):
            raise NodeError(
                f"the node reverts the change to its management path in {max(left, 0):.0f} s, too "
                "soon for another step; write a larger fabric_guard_revert_s"
            )


def arm(machine: Machine, steps: list[Step], netdevs: list[str], revert_s: int) -> Guard:
    """Have the node revert these steps by itself in a while, with the routes of their devices.

    The timer's script and `confirm` rename the same file, so one of them alone has it.

    Raises:
        NodeError: there is no such timer; nothing may be changed then.
    """
    name = f"rdmaprov-revert-{os.getpid()}-{secrets.token_hex(4)}"
    path = machine.path(f"{STATE}/{name}")
    machine.write(f"{STATE}/{name}.steps", "", 0o600)  # makes the directory
    lines = ['mv "$0" "$0.reverted" || exit 0']
    lines += [shlex.join(argv) for step in reversed(steps) for argv in step.undo]
    for number, netdev in enumerate(netdevs):
        for family in ("-4", "-6"):
            saved = shlex.quote(f"{path}.routes{family}.{number}")
            device = shlex.quote(netdev)
            save = f"ip {family} route save table all dev {device} > {saved}"
            machine.run(["sh", "-c", save])
            lines.append(f"ip {family} route restore < {saved}")  # leaves alone what is there
    machine.write(f"{STATE}/{name}", "\n".join(["#!/bin/sh", *lines, "exit 0", ""]), 0o700)
    begun = time.monotonic()
    machine.run(
        [
            "systemd-run",
            "--quiet",
            "--collect",
            f"--unit={name}",
            f"--on-active={revert_s}",
            "--timer-property=AccuracySec=100ms",
            "/bin/sh",
            path,
        ]
    )
    return Guard(name, begun + revert_s, revert_s)


def confirm(machine: Machine, name: str) -> None:
    """Keep the steps that a timer would revert; raise NodeError if it did so, or is at it."""
    if not re.fullmatch(r"rdmaprov-revert-[0-9A-Za-z-]+", name):
        raise NodeError(f"{name} is not a timer of rdmaprov's guard")
    path = machine.path(f"{STATE}/{name}")
    try:
        os.rename(path, path + ".confirmed")
    except FileNotFoundError as error:
        raise NodeError(f"the change was reverted before it was confirmed ({name})") from error
    # From now on the timer finds nothing to run; stopping it is tidying up.
    with contextlib.suppress(CommandFailed):
        machine.run(["systemctl", "stop", name + ".timer"])
    for each in machine.names(STATE):
        if each.startswith(name):
            machine.remove(f"{STATE}/{each}")


def _ip(machine: Machine, *words: str) -> str:
    return machine.run(["ip", "-j", *words])


def _device_to(machine: Machine, address: str) -> str:
    try:
        routes = json.loads(_ip(machine, "route", "get", address) or "[]")
    except CommandFailed:
        return ""  # no route: nothing carries it
    if routes and routes[0].get("type") == "local":
        return _owner(machine, address)
    return str(routes[0].get("dev", "")) if routes else ""


def _owner(machine: Machine, address: str) -> str:
    for link in json.loads(_ip(machine, "address", "show") or "[]"):
        if any(entry.get("local") == address for entry in link.get("addr_info", [])):
            return str(link["ifname"])
    return ""


def _controllers(machine: Machine) -> list[str]:
    """Return both ends of the ssh connection that this process came by; none without one."""
    words = connection(machine).split()
    return [words[0], words[2]] if len(words) == 4 else []


def connection(machine: Machine) -> str:
    """Return SSH_CONNECTION of the ssh connection that this process came by; empty without one.

    sudo drops SSH_CONNECTION from the environment, but not from that of its parents.
    """
    process = os.getpid()
    while process > 1:
        environment = (machine.read(f"/proc/{process}/environ") or "").split("\0")
        for entry in environment:
            if entry.startswith("SSH_CONNECTION="):
                return entry.partition("=")[2]
        status = (machine.read(f"/proc/{process}/stat") or "").rpartition(")")[2].split()
        process = int(status[1]) if len(status) > 1 else 0
    return ""
