"""Waits once for all nodes, as a round of playbooks/apply.yml does before it asks them again."""

from __future__ import annotations

import time
from typing import Any

from ansible.plugins.action import ActionBase

from ..plugin_utils.node_lock import next_round


class ActionModule(ActionBase):
    """Sleeps in one worker, whatever the number of nodes; a signal that stops Ansible ends it."""

    BYPASS_HOST_LOOP = True

    def run(
        self, tmp: str | None = None, task_vars: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return when the first node is to be asked."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        time.sleep(max(0.0, next_round(task_vars or {}) - time.monotonic()))
        return {**result, "changed": False}
