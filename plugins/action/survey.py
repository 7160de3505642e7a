"""The controller's part of rdmaprov.node.survey: the arguments of each role's module."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase

ROLES = Path(__file__).resolve().parents[2] / "roles"
COLLECTION = "rdmaprov.node"


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
        wanted = self._task.args.get("roles") or sorted(
            path.parent.parent.name for path in ROLES.glob("*/tasks/main.yml")
        )
        tasks = {name: self._task_of(name) for name in wanted}
        variables: dict[str, Any] = {}
        for name in ["fabric", *wanted]:
            variables.update(self._load(name, "defaults/main.yml"))
        variables.update(task_vars or {})
        templar = self._templar.copy_with_new_env(available_variables=variables)
        arguments = {
            name: templar.template(task) for name, task in tasks.items() if task is not None
        }
        given = {**self._task.args, "roles": list(arguments), "arguments": arguments}
        result.update(self._execute_module(module_args=given, task_vars=task_vars))
        # The survey is the first to find a full disk, and Ansible's message does not say it.
        if "No usable temporary directory" in str(result.get("module_stderr")):
            result["msg"] = (
                "no module can start on the node, for it cannot write a file in /tmp or /var/tmp: "
                "is its disk full? Run on the node: df -h / /tmp"
            )
        return result

    def _load(self, role: str, name: str) -> Any:
        path = ROLES / role / name
        if not path.parent.parent.is_dir():
            raise AnsibleError(f"there is no role {role} in {COLLECTION}")
        if not path.is_file():
            return {}
        return self._loader.load_from_file(str(path), trusted_as_template=True) or {}

    def _task_of(self, role: str) -> dict[str, Any] | None:
        """Return the arguments of the role's module as its task has them; None if it has none."""
        for task in self._load(role, "tasks/main.yml"):
            arguments = task.get(f"{COLLECTION}.{role}")
            if isinstance(arguments, dict):
                return arguments
        return None
