"""The controller's part of rdmaprov.node.revert: as a role's, and its survey's answer."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase

from ..module_utils.roles import ORDER
from .role import ActionModule as RoleAction
from .survey import ask


class ActionModule(RoleAction):
    """Takes back one role as a role's module is run; without a role, surveys."""

    _requires_connection = True

    def run(
        self, tmp: str | None = None, task_vars: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return the module's result."""
        if self._task.args.get("role"):
            return super().run(tmp, task_vars)
        return {**ActionBase.run(self, tmp, task_vars), **ask(self, {}, task_vars, ORDER)}
