"""The controller's part of rdmaprov.node.survey: the arguments of each role's module."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase

from ..plugin_utils import role_files
from ..plugin_utils.answers import Odd, survey_answer
from ..plugin_utils.budget import limited_memory
from ..plugin_utils.node_lock import NodeClaim, refusal
from ..plugin_utils.patience import ask_twice
from ..plugin_utils.planned import digest
from .role import busy_arguments


def ask(
    action: ActionBase,
    given: dict[str, Any],
    task_vars: dict[str, Any] | None,
    roles: Collection[str],
) -> dict[str, Any]:
    """Return what a survey of these roles answered; failed if it has problems."""
    claim = NodeClaim(task_vars, action._task.check_mode)
    if (early := claim.too_early()) is not None:
        return early
    given = {**action._task.args, **given, **busy_arguments(action, task_vars)}
    while True:
        given["lock"] = claim.request()
        with limited_memory():
            raw = ask_twice(
                action._connection,
                lambda: action._execute_module(module_args=given, task_vars=task_vars),
            )
        if raw.get("skipped"):
            return {"skipped": True, "changed": False}  # nothing tells; never taken for done
        try:
            found = survey_answer(raw, roles)
        except Odd as error:
            return {"failed": True, "msg": f"the node's survey {error}"}
        held = found.pop("held", None)
        if held is None:
            break
        if claim.left_running(held):
            waits = claim.await_step("", held)
            if waits is not None:
                return waits
        elif not claim.try_again(held):
            return {**found, "msg": refusal(held)}
    found.update(claim.facts)
    planned = action._task.args.get("planned")
    if planned and "roles" in found and digest(found) != planned:
        found["problems"].insert(0, "the node changed since the plan was shown or kept")
    # The module fails with them; roles must not run on a node that reports some and goes on.
    if found.get("problems") and not found.get("failed"):
        return {**found, "failed": True, "msg": "; ".join(found["problems"])}
    return found


class ActionModule(ActionBase):
    """Gives the module what each role's own task would give the role's module.

    So a role's arguments are written once, in its tasks/main.yml. As when the role runs, its
    defaults give way to the site's variables.
    """

    _requires_connection = True

    def run(
        self, tmp: str | None = None, task_vars: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return the module's result."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        try:
            asked = role_files.read_roles(self._task.args.get("roles") or (), self._load)
        except LookupError as error:
            raise AnsibleError(str(error)) from error
        variables = {**asked.defaults, **(task_vars or {})}
        templar = self._templar.copy_with_new_env(available_variables=variables)
        arguments = {name: templar.template(task) for name, task in asked.arguments.items()}
        given = {"roles": list(arguments), "arguments": arguments}
        result.update(ask(self, given, task_vars, arguments))
        # The survey is the first to find a full disk, and Ansible's message does not say it.
        if "No usable temporary directory" in str(result.get("module_stderr")):
            result["msg"] = (
                "Ansible cannot start on the node, because /tmp and /var/tmp are not writable: "
                "is its disk full? Run on the node: df -h / /tmp"
            )
        return result

    def _load(self, path: str) -> Any:
        return self._loader.load_from_file(path, trusted_as_template=True)
