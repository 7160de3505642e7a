"""A container image with torch on the node. Runs on the node."""

from __future__ import annotations

import re

from ..machine import CommandFailed, Machine
from ..plan import CONFIGURED, Change, Plan, Refused

PULL_TIMEOUT_S = 3600
_ABSENT = re.compile(r"no such (image|object)|image not known", re.IGNORECASE)
_IMAGE = re.compile(r"[a-z0-9][\w./:-]*(:[\w.-]+|@sha256:[0-9a-f]{64})")


def image(plan: Plan, tool: str, name: str) -> None:
    """Have an image on the node.

    Raises:
        Refused: it is not pinned, or the tool is not there.
        NodeError: the tool cannot tell.
    """
    if tool not in ("docker", "podman"):
        raise Refused(
            f"torch_runtime_container_tool: rdmaprov does not pull images for {tool}; write "
            "docker or podman, or torch_runtime_kind: none and copy the image to the node"
        )
    if not _IMAGE.fullmatch(name) or name.endswith(":latest"):
        raise Refused(f"torch_runtime_image: '{name}' is not pinned; write NAME@sha256:DIGEST")
    if not plan.machine.has(tool):
        raise Refused(f"torch_runtime_container_tool: {tool} is not installed; install it")
    if not _is_there(plan.machine, tool, name):
        change = Change(CONFIGURED, tool, name, "absent", "present")
        plan.add(change, lambda: _pull(plan.machine, tool, name))


def _is_there(machine: Machine, tool: str, name: str) -> bool:
    try:
        machine.run([tool, "image", "inspect", "--format", "{{.Id}}", name])
    except CommandFailed as error:
        if _ABSENT.search(error.output):
            return False
        raise
    return True


def _pull(machine: Machine, tool: str, name: str) -> None:
    machine.run([tool, "pull", "--quiet", name], timeout_s=PULL_TIMEOUT_S)
