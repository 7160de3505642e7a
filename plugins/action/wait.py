"""Waits once for all nodes, as a round of playbooks/apply.yml does before it asks them again."""

from __future__ import annotations

import time
from typing import Any

from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):
    """Sleeps in one worker, whatever the number of nodes; a signal that stops Ansible ends it."""

    BYPASS_HOST_LOOP = True

    def run(
        self, tmp: str | None = None, task_vars: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return once the time is over."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        time.sleep(float(self._task.args["seconds"]))
        return {**result, "changed": False}
