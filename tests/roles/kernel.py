"""Run the role fabric in network and mount namespaces of their own, on the kernel's real links.

    unshare -rnm python -m tests.roles.kernel < SCENARIO.json

SCENARIO is {"rails": [...], "do": [["sh", SCRIPT] | ["apply"] | ["apply", RAILS] | ["undo"]]}.
There are the links r0 and r1, switched off, and their other ends p0 and p1. The answer is a list
with what each found: for `apply` the running settings that it changed, or a message; then the
state of the links.
"""

import json
import os
import subprocess
import sys
import tempfile
from typing import Any

from plugins.module_utils.converge import converge
from plugins.module_utils.machine import Machine, NodeError
from plugins.module_utils.plan import RUNNING
from plugins.module_utils.roles import fabric
from tests.roles.fake import given
from tests.tables import cases

SETUP = """
mount -t sysfs sysfs /sys
for i in 0 1; do ip link add r$i type veth peer name p$i; ip link set p$i up; done
"""
STATE = cases(__file__, "state")
ARGUMENTS = given("fabric", kind="roce", neighbor_entries=0, link_manager="ifupdown")


class RealLinks(Machine):
    """A node whose links are real, and whose other files are in a directory."""

    def path(self, name: str) -> str:
        real = name.startswith(("/sys/class/net", "/sys/devices", "/proc/sys", "/proc/net"))
        return name if real else super().path(name)

    def real(self, name: str) -> str:
        return os.path.realpath(self.path(name))

    def run(self, argv: list[str], stdin: str = "", timeout_s: int = 60) -> str:
        # The kernel here has no RDMA, and ifupdown's files are in the directory.
        return "" if argv[0] in ("ifquery", "rdma") else super().run(argv, stdin, timeout_s)


def shell(script: str) -> str:
    return subprocess.run(
        ["sh", "-ec", script], check=True, capture_output=True, text=True, timeout=60
    ).stdout


def apply(machine: Machine, rails: list[dict[str, Any]]) -> list[str] | str:
    try:
        result = converge(machine, fabric, {**ARGUMENTS, "rails": rails}, check=False)
    except NodeError as error:
        return str(error)
    return [
        f"{each['device']} {each['setting']}"
        for each in result["changes"]
        if each["layer"] == RUNNING
    ]


def undo(machine: Machine, rails: list[dict[str, Any]]) -> list[str]:
    """Return the state before, in between and after a change on the way that is taken back."""
    states = [shell(STATE)]
    plan = fabric.plan(machine, {**ARGUMENTS, "rails": rails})
    steps = [each for each in plan.steps if each.undo]
    for step in steps:
        step.do()
    states.append(shell(STATE))
    for step in reversed(steps):
        for argv in step.undo:
            machine.run(argv)
    return [*states, shell(STATE)]


def main(scenario: dict[str, Any], directory: str) -> list[Any]:
    shell(SETUP)
    machine = RealLinks(directory)
    machine.write("/etc/network/interfaces", "source /etc/network/interfaces.d/*\n")
    for index in (0, 1):
        port = f"/sys/class/infiniband/mlx5_{index}/ports/1/"
        machine.write(port + "link_layer", "Ethernet\n")
        machine.write(port + "gid_attrs/ndevs/0", f"r{index}\n")
    found: list[Any] = []
    for verb, *words in scenario["do"]:
        if verb == "sh":
            shell(words[0])
        elif verb == "apply":
            found.append(apply(machine, words[0] if words else scenario["rails"]))
        else:
            found.append(undo(machine, scenario["rails"]))
    return [*found, shell(STATE).splitlines()]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        json.dump(main(json.load(sys.stdin), directory), sys.stdout)
