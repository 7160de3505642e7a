"""Runs of the role roce_qos on a made-up node, and what they changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from plugins.module_utils.converge import converge
from plugins.module_utils.roles import roce_qos
from tests.roles.qos_node import QosNode, arguments

MAP = {dscp: dscp >> 3 for dscp in range(64)}


def factory(root: Path) -> QosNode:
    node = QosNode(root)
    node.prepare()
    return node


def run(node: QosNode, **changed: Any) -> dict[str, Any]:
    return converge(node, roce_qos, arguments(**changed), check=False)


def settings(result: dict[str, Any]) -> list[str]:
    return [change["setting"] for change in result["changes"]]


def layers(result: dict[str, Any]) -> set[str]:
    return {change["layer"] for change in result["changes"]}
