"""What the controller does for a module that may change the management path."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase


class GuardedAction(ActionBase):
    """Runs the module; confirms a change on the management path over a new connection."""

    def run(
        self, tmp: str | None = None, task_vars: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return the module's result."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        module = self._task.action
        result.update(self._execute_module(module_name=module, task_vars=task_vars))
        if not result.get("confirm") or result.get("failed"):
            return result
        confirmed = self._confirm(result["confirm"], task_vars)
        if confirmed.get("failed") or confirmed.get("unreachable"):
            return {
                **confirmed,
                "changes": result["changes"],
                "msg": "a change to the management path was not confirmed, so the node reverts it "
                "by itself: {}".format(confirmed.get("msg", "no reason given")),
            }
        again: dict[str, Any] = self._execute_module(module_name=module, task_vars=task_vars)
        again["changed"] = True
        again["changes"] = result["changes"]
        return again

    def _confirm(self, timer: str, task_vars: dict[str, Any] | None) -> dict[str, Any]:
        """Stop the node's timer, over a connection that was not there before the change."""
        try:
            self._connection.reset()
            done: dict[str, Any] = self._execute_module(
                module_name="rdmaprov.node.confirm",
                module_args={"timer": timer},
                task_vars=task_vars,
            )
        except AnsibleConnectionFailure as error:
            return {"unreachable": True, "msg": str(error)}
        return done
