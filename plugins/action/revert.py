"""The controller's part of rdmaprov.node.revert: as a role's, and its survey's answer."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase

from ..plugin_utils.answers import Odd, survey_answer
from ..plugin_utils.budget import limited_memory
from ..plugin_utils.node_lock import NodeClaim
from ..plugin_utils.patience import ask_twice
from ..plugin_utils.planned import digest
from ..plugin_utils.role_files import ROLES
from .role import ActionModule as RoleAction


class ActionModule(RoleAction):
    """Takes back one role as a role's module is run; without a role, surveys."""

    _requires_connection = True

    def run(
        self, tmp: str | None = None, task_vars: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return the module's result."""
        if self._task.args.get("role"):
            return super().run(tmp, task_vars)
        result: dict[str, Any] = ActionBase.run(self, tmp, task_vars)
        given = {
            **self._task.args,
            "lock": NodeClaim(task_vars, self._task.check_mode).request(),
            "force_busy": (task_vars or {}).get("apply_force_busy", False),
        }
        with limited_memory():
            raw = ask_twice(
                self._connection,
                lambda: self._execute_module(module_args=given, task_vars=task_vars),
            )
        if not raw.get("failed") and not raw.get("unreachable") and "roles" not in raw:
            return {**result, "changed": False}  # nothing tells whether the run changed the node
        try:
            known = {path.name for path in ROLES.iterdir()}
            result.update(survey_answer(raw, known & {*(raw.get("roles") or ())}))
        except (Odd, TypeError) as error:
            return {**result, "failed": True, "msg": f"the node's survey {error}"}
        planned = self._task.args.get("planned")
        if planned and "roles" in result and digest(result) != planned:
            result["failed"], result["msg"] = True, "the node changed since the plan was shown"
        return result
