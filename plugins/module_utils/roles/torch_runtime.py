"""The Python with torch in which the acceptance runs. Runs on the node."""

from __future__ import annotations

from typing import Any

from ..machine import Machine
from ..plan import Plan, Refused
from ..torch import image, pins, proof, virtualenv


def plan(machine: Machine, arguments: dict[str, Any]) -> Plan:
    """Return what must change for the node to have the site's torch."""
    plan = Plan(machine)
    kind = arguments["kind"]
    if kind == "none":
        return plan
    if kind == "container":
        image.image(plan, arguments["container_tool"], arguments["image"])
        return plan
    _require_paths(arguments)
    wanted = pins.parse(arguments["requirements"], "torch_runtime_requirements")
    if kind == "interpreter":
        proof.interpreter(plan, arguments["python"], wanted)
        return plan
    if "torch" not in [pin.name for pin in wanted]:
        raise Refused("torch_runtime_requirements: torch is not among them; write torch==VERSION")
    if arguments["index_url"] and arguments["wheelhouse"]:
        raise Refused(
            "torch_runtime_wheelhouse: torch_runtime_index_url is set too; remove one of them"
        )
    source = virtualenv.Source(arguments["index_url"], arguments["wheelhouse"])
    directory = arguments["directory"].rstrip("/")
    virtualenv.environment(plan, directory, arguments["python"], wanted, source)
    return plan


def _require_paths(arguments: dict[str, Any]) -> None:
    for name in ("python", "directory", "wheelhouse"):
        if arguments[name] and not arguments[name].startswith("/"):
            raise Refused(f"torch_runtime_{name}: '{arguments[name]}' is not an absolute path")
    if arguments["index_url"].split() not in ([], [arguments["index_url"]]):
        raise Refused("torch_runtime_index_url: there is a blank in it; write one address")
