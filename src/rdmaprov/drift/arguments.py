"""The arguments of each role's module on a node, without running Ansible."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rdmaprov.inventory import Fleet
from rdmaprov.inventory.ansible_api import import_plugin, read_yaml
from rdmaprov.inventory.resolve import ResolveError


class NotCertain(Exception):
    """Only Ansible can tell a role's arguments; the message says why."""


class Arguments:
    """The arguments of roles' modules, node by node.

    The code of the collection's survey reads the roles' tasks and defaults, Ansible's templates
    render them, and Ansible's validator converts their types.

    Args:
        roles: names of the roles; empty for all.
    """

    def __init__(self, fleet: Fleet, roles: Sequence[str]) -> None:
        self._fleet = fleet
        self._role_files = import_plugin("plugin_utils.role_files").read_roles(roles, _load)
        self._roles = import_plugin("module_utils.arguments")
        self._known: dict[tuple[str, str], Any] = {}

    @property
    def roles(self) -> frozenset[str]:
        """Return the roles that a survey covers."""
        return frozenset(self._role_files.arguments)

    def of(self, node: str) -> dict[str, Any]:
        """Return the arguments by role, in their types, as plain data.

        Raises:
            NotCertain: only a run of Ansible knows a variable, or its value has the wrong type.
        """
        variables = self._fleet.role_variables(node, self._role_files.defaults)
        found = {}
        for role, raw in self._role_files.arguments.items():
            try:
                found[role] = self._convert_types(role, variables.render(raw))
            except ResolveError as error:
                raise NotCertain(f"{role}: {error.message}") from error
        return found

    def _convert_types(self, role: str, arguments: Any) -> Any:  # noqa: ANN401 - whatever the site says
        """Return arguments in their types; convert equal ones once."""
        try:
            # As Ansible sends them to a node: a number as a key becomes a text.
            text = json.dumps(arguments)
        except (TypeError, ValueError) as error:
            raise NotCertain(f"{role}: its arguments cannot be written as JSON: {error}") from error
        key = (role, text)
        if key not in self._known:
            try:
                self._known[key] = self._roles.convert_arguments(role, json.loads(text))
            except self._roles.NodeError as error:
                raise NotCertain(f"{role}: {error}") from error
        return self._known[key]


def _load(path: str) -> Any:  # noqa: ANN401 - a YAML file
    return read_yaml(Path(path))
