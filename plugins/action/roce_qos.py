"""The controller's part of rdmaprov.node.roce_qos."""

from __future__ import annotations

from ..plugin_utils.guarded import GuardedAction


class ActionModule(GuardedAction):
    """Runs the module under the guard."""
