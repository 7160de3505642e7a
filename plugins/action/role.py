"""The controller's part of every role's module: its lock, its answer, what is guarded."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase

from ..plugin_utils.answers import Odd, role_answer
from ..plugin_utils.budget import limited_memory
from ..plugin_utils.node_lock import NodeClaim, refusal

# One is the rule; a second one is for what the first made possible, such as a route.
MOST_CONFIRMATIONS = 3


def busy_arguments(action: ActionBase, task_vars: dict[str, Any] | None) -> dict[str, Any]:
    """Return what a module is told of the processes that use its node."""
    known = task_vars or {}
    own = action._templar.template(known.get("scheduler_standing_processes", []))
    return {"force_busy": known.get("apply_force_busy", False), "standing_processes": own}


class ActionModule(ActionBase):
    """Runs the module; confirms a change on the management path over a new connection."""

    def run(
        self, tmp: str | None = None, task_vars: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return the module's result."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        self._claim = NodeClaim(task_vars, self._task.check_mode)
        if (early := self._claim.too_early()) is not None:
            return {**result, **early}
        answer = self._ask(task_vars)
        changes: list[dict[str, str]] = []
        for _ in range(MOST_CONFIRMATIONS):
            if not answer.get("confirm") or answer.get("failed"):
                break
            changes += answer["changes"]
            confirmed = self._confirm(answer["confirm"], task_vars)
            if confirmed.get("failed") or confirmed.get("unreachable"):
                return {
                    **result,
                    **confirmed,
                    "changes": changes,
                    "msg": "a change to the management path was not confirmed, so the node "
                    "reverts it by itself: {}".format(confirmed.get("msg", "no reason given")),
                }
            answer = {**self._ask(task_vars), "changed": True}
        if answer.get("confirm") and not answer.get("failed"):
            why = f"the management path still changes after {MOST_CONFIRMATIONS} confirmed changes"
            return {**result, "failed": True, "changes": changes, "msg": f"{why}; it is reverted"}
        facts = {} if answer.get("running") else self._claim.facts
        return {**result, **answer, **facts, **({"changes": changes} if changes else {})}

    def _ask(self, task_vars: dict[str, Any] | None) -> dict[str, Any]:
        """Return what the module answered, once no other run holds the node."""
        while True:
            with limited_memory():
                raw = self._execute_module(
                    module_name=self._task.action,
                    module_args={
                        **self._task.args,
                        "lock": self._claim.request(),
                        **busy_arguments(self, task_vars),
                    },
                    task_vars=task_vars,
                )
            try:
                answer = role_answer(raw)
            except Odd as error:
                return {"failed": True, "msg": f"the node's answer {error}"}
            held = answer.pop("held", None)
            if answer.get("running") or (held and self._claim.left_running(held)):
                waits = self._claim.await_step(self._task.action.rpartition(".")[2], held)
                if waits is not None:
                    return waits
                continue
            if held is None:
                return answer
            if not self._claim.try_again(held):
                return {**answer, "msg": refusal(held)}

    def _confirm(self, timer: str, task_vars: dict[str, Any] | None) -> dict[str, Any]:
        """Stop the node's timer, over a connection that was not there before the change."""
        try:
            self._connection.reset()
            with limited_memory():
                done: dict[str, Any] = self._execute_module(
                    module_name="rdmaprov.node.confirm",
                    module_args={"timer": timer},
                    task_vars=task_vars,
                )
        except AnsibleConnectionFailure as error:
            return {"unreachable": True, "msg": str(error)}
        return {name: done[name] for name in ("failed", "unreachable", "msg") if name in done}
