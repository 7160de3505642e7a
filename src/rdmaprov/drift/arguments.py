"""What each role's module would be given on a node, without Ansible running."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rdmaprov.drift import collection
from rdmaprov.inventory import Fleet
from rdmaprov.inventory.ansible_api import read_yaml
from rdmaprov.inventory.resolve import ResolveError


class NotCertain(Exception):
    """What a role would be given is not known before Ansible runs; the message says why."""


class Arguments:
    """The arguments of roles' modules, node by node.

    The roles' tasks and defaults are read by the code by which the collection's survey reads them,
    and rendered by Ansible's templates; types are converted by Ansible's own validator.

    Args:
        fleet: the site.
        roles: names of the roles; empty for all.

    """

    def __init__(self, fleet: Fleet, roles: Sequence[str]) -> None:
        self._fleet = fleet
        self._asked = collection.module("plugin_utils.role_files").read_roles(roles, _load)
        self._roles = collection.module("module_utils.arguments")
        self._known: dict[tuple[str, str], Any] = {}

    @property
    def roles(self) -> frozenset[str]:
        """Return the roles that a survey of a node says something of."""
        return frozenset(self._asked.arguments)

    def of(self, node: str) -> dict[str, Any]:
        """Return the arguments by role, in their types, as plain data.

        Raises:
            NotCertain: a variable is only known when Ansible runs, or has no value of its type.

        """
        variables = self._fleet.role_variables(node, self._asked.defaults)
        found = {}
        for role, raw in self._asked.arguments.items():
            try:
                found[role] = self._typed(role, variables.rendered(raw))
            except ResolveError as error:
                raise NotCertain(f"{role}: {error.message}") from error
        return found

    def _typed(self, role: str, given: Any) -> Any:  # noqa: ANN401 - whatever the site says
        """Return arguments in their types; those that nodes share are converted once."""
        try:
            # As Ansible sends them to a node: a number as a key becomes a text.
            text = json.dumps(given)
        except (TypeError, ValueError) as error:
            raise NotCertain(f"{role}: its arguments are no plain data: {error}") from error
        key = (role, text)
        if key not in self._known:
            try:
                self._known[key] = self._roles.convert_arguments(role, json.loads(text))
            except self._roles.NodeError as error:
                raise NotCertain(f"{role}: {error}") from error
        return self._known[key]


def _load(path: str) -> Any:  # noqa: ANN401 - a YAML file
    return read_yaml(Path(path))
